"""The topics as the group coordinator sees them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kavka.server.coordinators.topic_view import KnownTopics
from support.memory_broker import MemoryBroker, scenario


@scenario("broker.rack=r1")
async def test_known_topics(broker: MemoryBroker) -> None:
    first_id, second_id = await broker.create("one"), await broker.create("two", 3)
    known = KnownTopics(broker.parts.metadata)
    assert sorted(known.names()) == ["one", "two"]
    assert (known.partition_count("two"), known.topic_id("two")) == (3, second_id)
    assert known.topic_name(first_id) == "one"
    assert known.racks("two", 2) == ["r1"]


@scenario()
async def test_unknown_topics_and_racks(broker: MemoryBroker) -> None:
    await broker.create("one")
    cache = broker.parts.metadata
    known = KnownTopics(cache)
    assert known.partition_count("none") is None
    assert known.topic_id("none") is None
    assert known.topic_name(UUID(int=1)) is None
    assert known.racks("none", 0) == []
    assert known.racks("one", 0) == [], "the broker has none"
    assert known.racks("one", 1) == []
    cache.image = replace(cache.image, brokers={})
    assert known.racks("one", 0) == []
