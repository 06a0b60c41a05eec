"""Metadata: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kavka.server.handlers import metadata
from kavka.server.runtime.rate_limited_logger import LINES_MAX
from kavka.wire.apis.metadata import API
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)

# The numbers of operations in bit fields (KIP-430).


async def ask(
    broker: MemoryBroker, *names: str, version: int = 9, create: bool = False, **values: Any
) -> Any:
    topics = [{"name": name} for name in names]
    request = {"topics": topics, "allow_auto_topic_creation": create} | values
    return await broker.ask("Metadata", version, **request)


def codes(answer: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


# -- what is not reachable -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_leaders_that_cannot_be_reached(broker: MemoryBroker, version: int) -> None:
    cache = broker.parts.metadata
    image = cache.image
    elsewhere = replace(image.brokers[1], endpoints={"OTHER": ("x", 1)})

    async def partition() -> tuple[int, int]:
        (topic,) = (await ask(broker, "t", version=version)).topics
        (found,) = topic.partitions
        return found.error_code, found.leader_id

    cache.image = replace(image, brokers={})
    assert await partition() == (Code.LEADER_NOT_AVAILABLE, -1)
    cache.image = replace(image, brokers={1: elsewhere})
    newer = version >= 6
    not_here = (Code.LISTENER_NOT_FOUND, 1) if newer else (Code.LEADER_NOT_AVAILABLE, -1)
    assert await partition() == not_here
    shared = replace(image.topics["t"].partitions[0], replicas=(1, 2))
    topics = {"t": replace(image.topics["t"], partitions=(shared,))}
    cache.image = replace(image, topics=topics)
    dead = Code.REPLICA_NOT_AVAILABLE if version == 0 else Code.NONE
    assert await partition() == (dead, 1)


# -- creation by asking ---------------------------------------------------------------------


@scenario()
async def test_concurrent_requests_create_one_topic(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    waiting = [broker.connect().send("Metadata", 12, **request) for _ in range(5)]
    await run_until_idle(100)
    received = {codes(answer.result())["new"] for answer in waiting}
    assert received <= {Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(await ask(broker, "new", version=12, create=True)) == {"new": Code.NONE}
    assert not broker.parts.auto_creating
    assert "can't create" not in caplog.text


@scenario("default.replication.factor=3")
async def test_what_can_not_be_made_does_not_fill_the_log(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients ask ten times a second and more."""
    for _ in range(2 * LINES_MAX):
        await ask(broker, "new", create=True)
        await run_until_idle()
    said = [line for line in caplog.messages if "can't create topic new on first use" in line]
    assert len(said) == LINES_MAX and "INVALID_REPLICATION_FACTOR" in said[0]


@scenario()
async def test_only_so_many_are_made_at_a_time(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client need not wait for its answer to ask for more, so something else has to."""
    monkeypatch.setattr(metadata, "AUTO_CREATE_MAX", 3)
    names = [f"new-{number}" for number in range(8)]
    for there in (3, 6, 8):
        await ask(broker, *names, create=True)
        assert len(broker.parts.auto_creating) <= 3
        await run_until_idle(100)
        assert len(broker.parts.metadata.image.topics) == there


# -- listeners ------------------------------------------------------------------------------


@scenario(
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "advertised.listeners=PLAINTEXT://outside.test:9092,INSIDE://127.0.0.1:0",
    topics={"t": 1},
)
async def test_addresses_are_those_of_the_listener_that_was_asked(broker: MemoryBroker) -> None:
    inside = broker.connect("INSIDE")
    (known,) = (await inside.ask("Metadata", 9, topics=[])).brokers
    assert (known.host, known.port) == broker.instance.addresses["INSIDE"]
    (known,) = (await broker.ask("Metadata", 9, topics=[])).brokers
    assert (known.host, known.port) == ("outside.test", 9092)
