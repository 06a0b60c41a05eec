"""A Produce request as a whole, before any of its partitions is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import TRANSACTIONAL, attributes_of_first


class Topic(NamedTuple):
    """A topic of a request, in another form than it came."""

    name: str
    topic_id: Any
    partition_data: Sequence[Any]


@dataclass(slots=True)
class Partition:
    """What is to be written to one."""

    index: int
    records: memoryview | None


def each_once(topics: Any) -> bool:
    """Whether no partition is named twice, and no topic named for nothing."""
    if len(topics) > 1 and len({topic.name or topic.topic_id for topic in topics}) < len(topics):
        return False
    for topic in topics:
        count = len(topic.partition_data)
        if count != 1 and (not count or len({data.index for data in topic.partition_data}) < count):
            return False
    return True


def last_of_each(topics: Any) -> list[Topic]:
    """What is named last counts, as in Apache Kafka, which keeps a map by partition."""
    merged: dict[tuple[str, Any], dict[int, Any]] = {}
    for topic in topics:
        for data in topic.partition_data:
            merged.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    return [Topic(*key, list(partitions.values())) for key, partitions in merged.items()]


def is_transactional(request: Any, topics: Any) -> bool:
    """Whether something is written in a transaction. ApiError for what Apache Kafka refuses the
    whole request for: looking for transactions, it reads the start of every partition's first
    batch."""
    for topic in topics:
        for data in topic.partition_data:
            records = data.records
            if records is not None and attributes_of_first(records) & TRANSACTIONAL:
                if request.transactional_id is None:
                    raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return True
    return False


def kept(context: RequestContext, topics: Any) -> list[Topic]:
    """The same, to be written later, before `context.applied` is done."""
    return [
        Topic(topic.name, topic.topic_id, [_kept(context, data) for data in topic.partition_data])
        for topic in topics
    ]


def _kept(context: RequestContext, data: Any) -> Partition:
    records = data.records
    return Partition(data.index, None if records is None else context.own(records))
