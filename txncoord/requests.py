"""What is asked of the transactions of a partition, and what they ask in turn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.wire.errors import ApiError, ErrorCode

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1

EPOCH_BUMPED_SINCE: Final = 2
"""The transaction version, of a client or of the broker, from which on every transaction ends
with a new epoch (KIP-890)."""


class InitProducerId(NamedTuple):
    """A producer of transactions begins, or goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """Of the producer until now, where it goes on."""

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
    """A client's wish to end its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    """The transaction version of the client: 2 from EndTxn 5 on, before that 0."""


class ProducerIdAndEpoch(NamedTuple):
    """What InitProducerId and EndTxn answer."""

    producer_id: int
    producer_epoch: int


class WriteMarkers(NamedTuple):
    """A command: the end of a transaction is to be written to its partitions.

    Then `TransactionShard.markers_written` is to be told, with this very object; also where there
    are no partitions.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Sequence[tuple[str, int]]
    """Topic and index, in order."""

    version: int
    """The transaction version that the transaction ends by: 0 or 2."""


class ReserveProducerIds(NamedTuple):
    """A command: a deadline could not be met for want of a fresh producer id."""


class NeedsProducerId(ApiError):
    """Raised before anything has changed: there is no fresh producer id at hand. Whoever asked
    gets some, and asks again; or has its client do that."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no producer id is at hand")
