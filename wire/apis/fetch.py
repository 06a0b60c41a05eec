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
from typing import Any, Final
from uuid import UUID

from kavka.wire.api import Api
from kavka.wire.apis.produce import LeaderIdAndEpoch, NodeEndpoint
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

__all__ = [
    "API",
    "BATCHES_SINCE",
    "FETCHED_EPOCHS_SINCE",
    "LEADER_EPOCHS_SINCE",
    "LOG_STARTS_SINCE",
    "NO_SESSION",
    "RACKS_SINCE",
    "REPLICA_STATES_SINCE",
    "SESSIONS_SINCE",
    "TOPIC_IDS_SINCE",
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchRequest",
    "FetchResponse",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionResponse",
    "ReplicaState",
    "SnapshotId",
    "TopicResponse",
    "error_response",
]

BATCHES_SINCE: Final = 4
"""Before, records are message sets; the broker makes them of its batches."""

LOG_STARTS_SINCE: Final = 5
SESSIONS_SINCE: Final = 7
LEADER_EPOCHS_SINCE: Final = 9
RACKS_SINCE: Final = 11
"""From here on consumers may read from followers (KIP-392)."""

FETCHED_EPOCHS_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATES_SINCE: Final = 15
"""From here on the id of a follower is in a tagged field (KIP-903)."""

NO_SESSION: Final = -1
"""As session epoch: the request has all partitions, and is not remembered (KIP-227)."""

HIGH_WATERMARK_MAX: Final = 2**63 - 1
"""As a reader's high watermark: it does not matter (KIP-1166)."""


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


@message
class ReplicaState:
    """Who fetches, if it is a follower."""

    replica_id: int
    replica_epoch: int


@message
class FetchedPartition:
    """What a follower asks for. Epochs are -1 if there are none."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    high_watermark: int = HIGH_WATERMARK_MAX
    replica_directory_id: UUID | None = None


@message
class FetchedTopic:
    topic_id: UUID
    partitions: Sequence[FetchedPartition]


@message
class ForgottenTopic:
    """Partitions that a session's request removes from it (KIP-227)."""

    topic_id: UUID
    partitions: Sequence[int]


@message
class FetchRequest:
    """A follower's request, from version 15 on; without a session if it names none."""

    replica_state: ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: Sequence[FetchedTopic]
    session_epoch: int = NO_SESSION
    session_id: int = 0
    isolation_level: int = 0
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    cluster_id: str | None = None


def error_response(request: Any, code: ErrorCode, version: int) -> FetchResponse:
    """`code` as the top-level error code, and before version 13 for every partition in the request
    as well.

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
