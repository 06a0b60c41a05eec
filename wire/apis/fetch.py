"""Fetch (key 1): read record batches from partitions, for consumers and followers.

Versions 0 to 18; the responses of 0 and 1 hold message sets of magic 0, those of 2 and 3 of magic 1
with timestamps (KIP-32); 3 has a limit for the whole response (KIP-74), 4 record batches of magic 2
and the isolation level (KIP-98), 5 the log start offset (KIP-107), 7 fetch sessions (KIP-227), 9
the current leader epoch (KIP-320), 10 allows zstd (KIP-110), 11 racks and the preferred read
replica (KIP-392), 12 is flexible and finds divergence by epoch (KIP-595), 13 names topics by id
(KIP-516), 14 may say that an offset has moved to tiered storage (KIP-405), 15 carries the
replica's epoch (KIP-903), 16 the endpoints of current leaders (KIP-951), 17 directory ids
(KIP-853), 18 the reader's high watermark (KIP-1166).
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.apis.produce import LeaderIdAndEpoch, NodeEndpoint
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

if TYPE_CHECKING:
    from kafka.protocol.consumer.fetch import FetchRequest

__all__ = [
    "API",
    "BATCHES_SINCE",
    "FETCHED_EPOCHS_SINCE",
    "LEADER_EPOCHS_SINCE",
    "TOPIC_IDS_SINCE",
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchResponse",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionResponse",
    "SnapshotId",
    "TopicResponse",
    "error_response",
]

BATCHES_SINCE: Final = 4
"""Before, records are message sets; the broker makes them of its batches."""

LEADER_EPOCHS_SINCE: Final = 9
FETCHED_EPOCHS_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13


@message
class EpochEndOffset:
    """The largest epoch that leader and fetcher share, and its end offset on the leader."""

    epoch: int = -1
    end_offset: int = -1


@message
class SnapshotId:
    """Only KRaft's metadata log has snapshots; needed by the schema."""

    end_offset: int = -1
    epoch: int = -1


@message
class AbortedTransaction:
    producer_id: int
    first_offset: int


@message
class PartitionResponse:
    """Offsets are -1 where they are not known. `records` is anything with a length in bytes
    that the connection can send; none to give is `b""`.
    """

    partition_index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sized | None = b""
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None


@message
class TopicResponse:
    topic: str
    topic_id: UUID | None
    partitions: Sequence[PartitionResponse]


@message
class FetchResponse:
    """`session_id` is 0 outside a session."""

    responses: Sequence[TopicResponse] = ()
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


def error_response(request: FetchRequest, code: ErrorCode, version: int) -> FetchResponse:
    """`code` at the top, and before version 13 for every partition in the request as well.

    Versions before 7 have no place at the top.
    """
    if version >= TOPIC_IDS_SINCE:
        return FetchResponse(error_code=code, session_id=request.session_id)
    topics = [
        TopicResponse(
            topic.topic,
            topic.topic_id,
            [PartitionResponse(p.partition, code) for p in topic.partitions],
        )
        for topic in request.topics
    ]
    return FetchResponse(topics, code, request.session_id)


API: Final = Api(
    1,
    "Fetch",
    versions=(0, 18),
    first_flexible=12,
    error_response=error_response,
)
