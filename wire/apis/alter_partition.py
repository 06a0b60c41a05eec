"""AlterPartition (key 56): a leader asks the controller to change its in-sync replicas (KIP-497).

Versions 0 to 3, all flexible; 1 adds recovery after an unclean election (KIP-704), 2 names topics
by id (KIP-841), 3 has the epochs of the in-sync replicas' brokers (KIP-903).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TOPIC_IDS_SINCE: Final = 2
"""Before, topics are named."""

BROKER_EPOCHS_SINCE: Final = 3
"""Before, a request has the in-sync replicas by id only, in `new_isr`."""


@message
class IsrMember:
    """`broker_epoch` is -1 if it does not matter."""

    broker_id: int
    broker_epoch: int = -1


@message
class RequestedPartition:
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: Sequence[IsrMember]
    partition_epoch: int
    leader_recovery_state: int = 0


@message
class RequestedTopic:
    topic_id: UUID
    partitions: Sequence[RequestedPartition]


@message
class AlterPartitionRequest:
    """In the newest version."""

    broker_id: int
    broker_epoch: int
    topics: Sequence[RequestedTopic]


@message
class PartitionResponse:
    """The partition's state at the controller, unless there is an error."""

    partition_index: int
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: Sequence[int] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


@message
class TopicResponse:
    """By its name or its id, as in the request."""

    topic_name: str
    topic_id: UUID | None
    partitions: Sequence[PartitionResponse]


@message
class AlterPartitionResponse:
    error_code: int = 0
    topics: Sequence[TopicResponse] = ()
    throttle_time_ms: int = 0


def error_response(request: Any, code: ErrorCode, version: int) -> AlterPartitionResponse:
    """`code` as the top-level error code."""
    return AlterPartitionResponse(code)


API: Final = Api(
    56,
    "AlterPartition",
    versions=(0, 3),
    first_flexible=0,
    error_response=error_response,
)
