"""Checks and copies of a whole Produce request, before its partitions are handled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import TRANSACTIONAL, attributes_of_first


class ProduceTopic(NamedTuple):
    """A topic of a request, with merged or retained partitions."""

    name: str
    topic_id: Any
    partition_data: Sequence[Any]


@dataclass(slots=True)
class ProducePartition:
    """A partition's retained records."""

    index: int
    records: memoryview | None


def names_each_once(topics: Any) -> bool:
    """Whether no partition is named twice, and each topic has partitions."""
    if len(topics) > 1 and len({topic.name or topic.topic_id for topic in topics}) < len(topics):
        return False
    for topic in topics:
        count = len(topic.partition_data)
        if count != 1 and (not count or len({data.index for data in topic.partition_data}) < count):
            return False
    return True


def last_of_each(topics: Any) -> list[ProduceTopic]:
    """The last data of each partition, as in Apache Kafka, which keeps a map by partition."""
    merged: dict[tuple[str, Any], dict[int, Any]] = {}
    for topic in topics:
        for data in topic.partition_data:
            merged.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    return [ProduceTopic(*key, list(partitions.values())) for key, partitions in merged.items()]


def is_transactional(request: Any, topics: Any) -> bool:
    """Whether a partition's first batch is transactional. ApiError for errors of that check, for
    which Apache Kafka refuses the whole request too: it reads the start of each first batch."""
    for topic in topics:
        for data in topic.partition_data:
            records = data.records
            if records is not None and attributes_of_first(records) & TRANSACTIONAL:
                if request.transactional_id is None:
                    raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return True
    return False


def retained(context: RequestContext, topics: Any) -> list[ProduceTopic]:
    """The same topics with records that stay valid until `context.applied` is done."""
    return [
        ProduceTopic(
            topic.name, topic.topic_id, [_retained(context, data) for data in topic.partition_data]
        )
        for topic in topics
    ]


def _retained(context: RequestContext, data: Any) -> ProducePartition:
    records = data.records
    return ProducePartition(data.index, None if records is None else context.retain(records))
