"""Requests that the doctor asks brokers with; what each means is said by its API in kavka.wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kavka.wire.message import message

TIMEOUT_MS: Final = 30_000
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


@message
class RequestedGroup:
    """`topics`: all if None."""

    group_id: str
    topics: None = None
    member_id: str | None = None
    member_epoch: int = -1


@message
class OffsetFetchRequest:
    """Of one group: `groups` has it from version 8 on, `group_id` before."""

    groups: Sequence[RequestedGroup]
    group_id: str
    topics: None = None
    require_stable: bool = False


@message
class Assignment:
    partition_index: int
    broker_ids: Sequence[int]


@message
class Config:
    name: str
    value: str


@message
class NewTopic:
    name: str
    assignments: Sequence[Assignment]
    configs: Sequence[Config]
    num_partitions: int = -1
    replication_factor: int = -1


@message
class CreateTopicsRequest:
    topics: Sequence[NewTopic]
    timeout_ms: int = TIMEOUT_MS
    validate_only: bool = False


@message
class DeletedTopic:
    name: str | None
    topic_id: UUID = UUID(int=0)


@message
class DeleteTopicsRequest:
    """`topic_names` up to version 5."""

    topics: Sequence[DeletedTopic]
    topic_names: Sequence[str]
    timeout_ms: int = TIMEOUT_MS


@message
class PartitionData:
    index: int
    records: bytes


@message
class TopicData:
    """`topic_id` from version 13 on."""

    name: str
    topic_id: UUID
    partition_data: Sequence[PartitionData]


@message
class ProduceRequest:
    topic_data: Sequence[TopicData]
    acks: int = -1
    timeout_ms: int = TIMEOUT_MS
    transactional_id: str | None = None
