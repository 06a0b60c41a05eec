"""Produce (key 0): append record batches to partitions.

Versions 0 to 13; 0 and 1 hold message sets of magic 0, 2 of magic 1 with timestamps (KIP-32), 3
record batches (KIP-98), 7 allows zstd (KIP-110), 8 reports which records were rejected (KIP-467), 9
is flexible (KIP-482), 10 adds the current leader on errors (KIP-951), 12 belongs to transaction
protocol 2 (KIP-890), 13 names topics by id (KIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.producer.produce import ProduceRequest


@message
class RecordError:
    """Why one record of a rejected batch was rejected (KIP-467)."""

    batch_index: int
    batch_index_error_message: str | None = None


@message
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@message
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class PartitionResponse:
    """Offsets are -1 where nothing was appended; times in ms, -1 for CreateTime topics."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


@message
class TopicResponse:
    name: str
    topic_id: UUID | None
    partition_responses: Sequence[PartitionResponse]


@message
class ProduceResponse:
    responses: Sequence[TopicResponse]
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def error_response(request: ProduceRequest, code: ErrorCode, version: int) -> ProduceResponse:
    """`code` for every partition in the request."""
    return ProduceResponse(
        [
            TopicResponse(
                topic.name,
                topic.topic_id,
                [PartitionResponse(p.index, code) for p in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


BATCHES_SINCE: Final = 3
"""Earlier versions have message sets, which the broker converts to batches."""


def expects_response(request: Any) -> bool:
    """False for acks=0."""
    return bool(request.acks != 0)


API: Final = Api(
    0,
    "Produce",
    versions=(0, 13),
    first_flexible=9,
    error_response=error_response,
)


def release_records(request: Any) -> None:
    """Drop the views of the request's records; only its topics and partitions are still used."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None
