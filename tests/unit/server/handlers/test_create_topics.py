"""CreateTopics: the codes of Apache Kafka 4.3.1. What may be asked for is tested with
`controller.new_topics`; here it is asked over the wire, and looked at from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.server.auth.authorizer import Operation
from kavka.server.config import describe
from kavka.server.handlers import create_topics
from kavka.wire.apis.create_topics import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
TOPIC_CONFIG, DEFAULT_CONFIG, STATIC_BROKER_CONFIG = 1, 5, 4


async def create(
    broker: MemoryBroker, *topics: Mapping[str, Any], version: int = 7, **values: Any
) -> Any:
    request = {"timeout_ms": 5000, "topics": list(topics)} | values
    answer = await broker.ask("CreateTopics", version, **request)
    return answer.topics


async def code(broker: MemoryBroker, topic: Mapping[str, Any], **values: Any) -> Code:
    (answer,) = await create(broker, topic, **values)
    if answer.error_code not in (Code.NONE, Code.REQUEST_TIMED_OUT):
        assert answer.error_message, "why it is refused"
    return Code(answer.error_code)


async def names(broker: MemoryBroker) -> dict[str, int]:
    """The topics that there are, and how many partitions they have."""
    answer = await broker.ask("Metadata", 9, topics=None)
    return {topic.name: len(topic.partitions) for topic in answer.topics}


@pytest.mark.parametrize("version", VERSIONS)
@scenario("num.partitions=4")
async def test_a_created_topic_can_be_written_to_at_once(
    broker: MemoryBroker, version: int
) -> None:
    (answer,) = await create(broker, new_topic("t", 3), version=version)
    assert (answer.name, answer.error_code) == ("t", Code.NONE)
    tells_settings = version >= 5
    counts = (answer.num_partitions, answer.replication_factor)
    assert counts == ((3, 1) if tells_settings else (-1, -1))
    assert bool(answer.configs) == tells_settings
    assert (answer.topic_id is not None) == (version >= 7)
    assert await names(broker) == {"t": 3}
    assert (await broker.produce(build(), partition=2)).error_code == Code.NONE


@scenario("log.segment.bytes=5000000")
async def test_the_settings_that_a_topic_gets(broker: MemoryBroker) -> None:
    (answer,) = await create(broker, new_topic("t", configs={"retention.ms": "1000"}))
    found = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert found["retention.ms"] == ("1000", TOPIC_CONFIG)
    assert found["segment.bytes"] == ("5000000", STATIC_BROKER_CONFIG)
    assert found["max.message.bytes"] == ("1048588", DEFAULT_CONFIG)
    assert not any(config.read_only or config.is_sensitive for config in answer.configs)
    broker.parts.authorizer = Denied(Operation.DESCRIBE_CONFIGS)
    (answer,) = await create(broker, new_topic("u"))
    assert (answer.error_code, answer.topic_config_error_code) == (0, 29)
    assert (answer.num_partitions, answer.configs) == (-1, [])


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 1])
@scenario(topics={"there": 1})
async def test_validate_only_makes_nothing(broker: MemoryBroker, version: int) -> None:
    topics = [new_topic("t", 2), new_topic("there"), new_topic("a b")]
    answers = await create(broker, *topics, version=version, validate_only=True)
    codes = [answer.error_code for answer in answers]
    assert codes == [Code.NONE, Code.TOPIC_ALREADY_EXISTS, Code.INVALID_TOPIC_EXCEPTION]
    assert (answers[0].topic_id is not None) == (version >= 7), "as by Kafka, but of no topic"
    assert await names(broker) == {"there": 1}


# -- refusals -------------------------------------------------------------------------------


@scenario(topics={"there": 1, "a.b": 1})
async def test_names(broker: MemoryBroker) -> None:
    assert await code(broker, new_topic("there")) == Code.TOPIC_ALREADY_EXISTS
    assert await code(broker, new_topic("a_b")) == Code.INVALID_TOPIC_EXCEPTION, "collides"
    for bad in ("", ".", "..", "a b", "ä", "a/b", "x" * 250):
        assert await code(broker, new_topic(bad)) == Code.INVALID_TOPIC_EXCEPTION
    assert await code(broker, new_topic("__cluster_metadata")) == Code.INVALID_REQUEST
    assert await code(broker, new_topic("x" * 249)) == Code.NONE


# -- time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", range(0, 16, 3))
@scenario()
async def test_a_client_that_hangs_up_during_a_creation_leaves_nothing_behind(
    broker: MemoryBroker, iterations: int
) -> None:
    """The topic may be made or not, but its name stays usable."""
    client = broker.connect()
    client.send("CreateTopics", 7, timeout_ms=1000, topics=[new_topic("t")])
    await run_until_idle(iterations)
    client.close()
    await run_until_idle(100)
    assert await code(broker, new_topic("t")) in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
    assert await code(broker, new_topic("t")) == Code.NONE


@scenario()
async def test_many_topics_are_answered_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations: list[int] = []
    original = describe.topic_entries

    def counted(*args: Any, **more: Any) -> Any:
        iterations[-1] += 1
        return original(*args, **more)

    async def beside() -> None:
        while True:
            iterations.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(describe, "topic_entries", counted)
    watching = asyncio.ensure_future(beside())
    await run_until_idle(1)
    answers = await create(broker, *[new_topic(f"t{number}") for number in range(40)])
    watching.cancel()
    assert {topic.error_code for topic in answers} == {Code.NONE}
    assert sum(iterations) == 40
    assert max(iterations) <= create_topics.RESPONSES_PER_STEP
