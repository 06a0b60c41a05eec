"""IncrementalAlterConfigs over the wire: what a change does at once. Every refusal is compared with
Apache Kafka's by the differential test."""

from __future__ import annotations

import logging

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import (
    BROKER,
    DELETE,
    LOGGER,
    SET,
    TOPIC,
    change,
    value_of,
)
from support.memory_broker import DATA, MemoryBroker, scenario

DONE = (Code.NONE, None)


async def produced(broker: MemoryBroker, topic: str = "t") -> int:
    """The code of an answer to a batch of a few hundred bytes."""
    code: int = (await broker.produce(build([Written(value=b"x" * 300)]), topic)).error_code
    return code


def segments(broker: MemoryBroker) -> int:
    """How many files with records the topic has."""
    return sum(name.endswith(".log") for name in broker.fs.list_dir(f"{DATA}/t-0"))


@scenario("log.segment.bytes=1048576", topics={"t": 1})
async def test_segments_roll_by_the_new_size(broker: MemoryBroker) -> None:
    big = build([Written(value=b"x" * 600_000)])
    await change(broker, (TOPIC, "t", [("segment.bytes", SET, "2097152")]))
    for _ in range(3):
        assert (await broker.produce(big)).error_code == Code.NONE
    assert segments(broker) == 1
    await change(broker, (TOPIC, "t", [("segment.bytes", DELETE, None)]))
    await broker.produce(big)
    assert segments(broker) == 2


@scenario(topics={"t": 1})
async def test_only_validated(broker: MemoryBroker) -> None:
    root = logging.root.level
    changes = [
        (TOPIC, "t", [("max.message.bytes", SET, "100")]),
        (BROKER, "1", [("message.max.bytes", SET, "100")]),
        (LOGGER, "1", [("root", SET, "FATAL")]),
    ]
    assert await change(broker, *changes, validate_only=True) == [DONE] * 3
    assert await produced(broker) == Code.NONE
    assert await value_of(broker, BROKER, "1", "message.max.bytes") == "1048588"
    assert logging.root.level == root


@scenario(topics={"t": 1})
async def test_loggers(broker: MemoryBroker) -> None:
    name = "kavka.server.instance"
    before = logging.getLogger(name).level
    try:
        assert await change(broker, (LOGGER, "1", [(name, SET, "TRACE")])) == [DONE]
        assert logging.getLogger(name).isEnabledFor(5)
        assert await value_of(broker, LOGGER, "1", name) == "TRACE"
        assert await change(broker, (LOGGER, "1", [(name, DELETE, None)])) == [DONE]
        assert logging.getLogger(name).level == logging.NOTSET
    finally:
        logging.getLogger(name).setLevel(before)


@scenario(topics={"t": 1})
async def test_a_config_without_effect_is_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await change(
            broker,
            (TOPIC, "t", [("local.retention.ms", SET, " 5\n"), ("segment.ms", SET, "5")]),
            (BROKER, "", [("log.preallocate", SET, "true")]),
        )
    assert sorted(record.message for record in caplog.records) == [
        "no effect: log.preallocate (segment files grow as they are written)",
        "topic t: no effect: local.retention.ms=5 (there is no tiered storage)",
    ]
