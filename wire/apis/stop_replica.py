"""StopReplica (key 5): stop replicas, and delete some of them; from the controller to a broker.

Versions 0 to 4; 1 has the broker's epoch (KIP-380) and partitions by topic, 2 is flexible, 3 has
each partition's leader epoch and says of each whether it is deleted (KIP-570), 4 tells
controllers of KRaft (KIP-866).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message


@message
class StopReplicaRequest:
    """What a controller that is not of KRaft sends, in the newest version. States are any objects
    with the schema's fields."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: Sequence[Any]
    is_k_raft_controller: bool = False


@message
class PartitionError:
    topic_name: str
    partition_index: int
    error_code: int = 0


@message
class StopReplicaResponse:
    error_code: int = 0
    partition_errors: Sequence[PartitionError] = ()


def error_response(request: Any, code: ErrorCode, version: int) -> StopReplicaResponse:
    """`code` as the top-level error code and for every partition in the request."""
    found = _partitions(request)
    return StopReplicaResponse(code, [PartitionError(name, index, code) for name, index in found])


def _partitions(request: Any) -> list[tuple[str, int]]:
    """Topic and number of each partition in the request. Of its three lists of partitions two are
    empty, those of other versions."""
    found = [
        (partition.topic_name, partition.partition_index)
        for partition in request.ungrouped_partitions
    ]
    found += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    found += [
        (topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return found


API: Final = Api(
    5,
    "StopReplica",
    versions=(0, 4),
    first_flexible=2,
    error_response=error_response,
)
