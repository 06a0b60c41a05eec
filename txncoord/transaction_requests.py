"""Requests to the transaction coordinator's state machine, and the commands it returns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.wire.errors import ApiError, ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1

EPOCH_BUMPED_SINCE: Final = 2
"""The first transaction version, of a client or of the broker, in which every transaction ends
with an epoch bump (KIP-890)."""


class InitProducerId(NamedTuple):
    """A transactional producer starts, or recovers from an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """The producer's current id, if it recovers."""

    producer_epoch: int = NO_EPOCH


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn and AddOffsetsToTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[tuple[str, int]]
    """Topic and index."""

    version: int = 0
    """The transaction version of the client: 2 where a broker asks for it (AddPartitionsToTxn 4
    and later), 0 where the client itself does."""


class EndTxn(NamedTuple):
    """EndTxn: commit or abort."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    """The transaction version of the client: 2 from EndTxn 5 on, before that 0."""


class ProducerIdAndEpoch(NamedTuple):
    """The result of InitProducerId and EndTxn."""

    producer_id: int
    producer_epoch: int


class WriteMarkers(NamedTuple):
    """A command: write the end markers of a transaction to its partitions.

    Afterwards call `TransactionShard.markers_written` with this same object; also if there are no
    partitions.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Sequence[tuple[str, int]]
    """Topic and index, in order."""

    version: int
    """The transaction version of the end: 0 or 2."""


class ReserveProducerIds(NamedTuple):
    """A command: reserve producer ids; aborting a timed-out transaction needs one."""


class NeedsProducerId(ApiError):
    """No unused producer id is available; raised before any change. The caller reserves a block
    and retries, or lets its client retry."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no producer id is available")
