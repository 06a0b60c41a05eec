"""Requests about committed offsets to a broker in memory, in any version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kavka.compat_tests.raw.codec.wire_client import by_topic
from support.group_requests import GROUP
from support.memory_broker import MemoryBroker

OF_REQUEST: Final = ("generation_id_or_member_epoch", "member_id", "retention_time_ms")
Place = tuple[str, int]
GROUPS_SINCE: Final = 8


def topic_id(broker: MemoryBroker, name: str) -> Any:
    """As the broker knows it, if it does."""
    known = broker.parts.metadata.image.topics.get(name)
    return None if known is None else known.topic_id


def names(broker: MemoryBroker) -> dict[Any, str]:
    """Names by topic id."""
    return dict(broker.parts.metadata.image.names_by_id)


def committing(
    broker: MemoryBroker, offsets: Mapping[Place, int], *, group_id: str = GROUP, **more: Any
) -> dict[str, Any]:
    """An OffsetCommit of one who is in no group. `more` changes partitions, but for what is of the
    request."""
    of_request: dict[str, Any] = {name: more.pop(name) for name in OF_REQUEST if name in more}
    topics = [
        {**topic, "topic_id": topic_id(broker, topic["name"])}
        for topic in with_offsets(offsets, **more)
    ]
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "topics": topics,
        **of_request,
    }


def with_offsets(offsets: Mapping[Place, int], **more: Any) -> list[dict[str, Any]]:
    """Topics by name, as OffsetCommit and TxnOffsetCommit have them. `more` changes partitions."""
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_metadata": "text",
                    **more,
                }
                for index, offset in partitions.items()
            ],
        }
        for name, partitions in by_topic(offsets).items()
    ]


async def commit(
    broker: MemoryBroker, offsets: Mapping[Place, int], version: int = 9, **more: Any
) -> dict[Place, int]:
    """One OffsetCommit: the codes."""
    values = committing(broker, offsets, **more)
    return codes(broker, await broker.ask("OffsetCommit", version, **values))


def codes(broker: MemoryBroker, answer: Any) -> dict[Place, int]:
    """Of an answer to OffsetCommit."""
    return {
        (
            topic.name or names(broker)[topic.topic_id],
            partition.partition_index,
        ): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


def fetching(
    broker: MemoryBroker,
    places: Sequence[Place] | None,
    version: int,
    *,
    group_id: str = GROUP,
    **more: Any,
) -> dict[str, Any]:
    """An OffsetFetch of one group; None: all places."""
    topics = None
    if places is not None:
        topics = [
            {"name": name, "topic_id": topic_id(broker, name), "partition_indexes": list(indexes)}
            for name, indexes in by_topic(dict.fromkeys(places)).items()
        ]
    group = {"group_id": group_id, "topics": topics}
    return {**({"groups": [group]} if version >= GROUPS_SINCE else group), **more}


async def fetch(
    broker: MemoryBroker, places: Sequence[Place] | None = None, version: int = 9, **more: Any
) -> dict[Place, tuple[int, int]]:
    """One OffsetFetch: offset and code of each place. The group's own code must be none."""
    values = fetching(broker, places, version, **more)
    return found(broker, await broker.ask("OffsetFetch", version, **values), version)


def found(broker: MemoryBroker, answer: Any, version: int) -> dict[Place, tuple[int, int]]:
    """Of an answer to OffsetFetch for one group."""
    group = answer.groups[0] if version >= GROUPS_SINCE else answer
    assert version < 2 or group.error_code == 0
    return {
        (
            topic.name if version < 10 else names(broker)[topic.topic_id],
            partition.partition_index,
        ): (
            partition.committed_offset,
            partition.error_code,
        )
        for topic in group.topics
        for partition in topic.partitions
    }
