"""LeaderAndIsr (key 4): leaders and replicas of partitions; from the controller to each replica.

Versions 0 to 7; 1 says whether a partition is new, 2 has the broker's epoch (KIP-380) and
partitions by topic, 3 adds reassignments (KIP-455), 4 is flexible, 5 names topics by id too, in
the response only so (KIP-516), 6 adds recovery after an unclean election (KIP-704), 7 tells
controllers of KRaft (KIP-866).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TOPIC_IDS_SINCE: Final = 5
"""Before, a response has each partition beside its topic."""


@message
class LeaderAndIsrRequest:
    """What a controller that is not of KRaft sends, in the newest version. States and leaders are
    any objects with the schema's fields."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: Sequence[Any]
    live_leaders: Sequence[Any]
    is_k_raft_controller: bool = False
    type: int = 0


@message
class PartitionError:
    """`topic_name` is only sent before the topic ids."""

    partition_index: int
    error_code: int = 0
    topic_name: str = ""


@message
class TopicErrors:
    topic_id: UUID | None
    partition_errors: Sequence[PartitionError]


@message
class LeaderAndIsrResponse:
    """Partitions are in `partition_errors` before the topic ids, and in `topics` since."""

    error_code: int = 0
    partition_errors: Sequence[PartitionError] = ()
    topics: Sequence[TopicErrors] = ()


def error_response(request: Any, code: ErrorCode, version: int) -> LeaderAndIsrResponse:
    """`code` as the top-level error code and for every partition in the request. Of the request's
    two lists of partitions one is empty, that of other versions."""
    if version >= TOPIC_IDS_SINCE:
        topics = [
            TopicErrors(
                topic.topic_id,
                [PartitionError(state.partition_index, code) for state in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(code, topics=topics)
    named = [(state.topic_name, state) for state in request.ungrouped_partition_states]
    named += [
        (topic.topic_name, state)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return LeaderAndIsrResponse(
        code, [PartitionError(state.partition_index, code, name) for name, state in named]
    )


API: Final = Api(
    4,
    "LeaderAndIsr",
    versions=(0, 7),
    first_flexible=4,
    error_response=error_response,
)
