"""IncrementalAlterConfigs over the wire: what a change does at once. Every refusal is compared with
Apache Kafka's by the differential test."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.incremental_alter_configs import API
from kavka.wire.errors import ErrorCode as Code
from support.batches import Written, build
from support.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBSCRIPTION,
    TOPIC,
    change,
    describe,
    value_of,
)
from support.denied import Denied
from support.memory_broker import DATA, MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
DONE = (Code.NONE, None)
OF_TOPIC, OF_BROKER, OF_ALL = 1, 2, 3


async def produced(broker: MemoryBroker, topic: str = "t") -> int:
    """The code of an answer to a batch of a few hundred bytes."""
    code: int = (await broker.produce(build([Written(value=b"x" * 300)]), topic)).error_code
    return code


def segments(broker: MemoryBroker) -> int:
    """How many files with records the topic has."""
    return sum(name.endswith(".log") for name in broker.fs.list_dir(f"{DATA}/t-0"))


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 2})
async def test_a_topic_s_limit_counts_at_once(broker: MemoryBroker, version: int) -> None:
    assert await produced(broker) == Code.NONE
    lower = (TOPIC, "t", [("max.message.bytes", SET, "100")])
    assert await change(broker, lower, version=version) == [DONE]
    assert await produced(broker) == Code.MESSAGE_TOO_LARGE
    limits = {one.log.settings.max_message_bytes for one in broker.replicas()}
    assert limits == {100}
    unset = (TOPIC, "t", [("max.message.bytes", DELETE, None)])
    assert await change(broker, unset, version=version) == [DONE]
    assert await produced(broker) == Code.NONE


@scenario(topics={"t": 1, "u": 1})
async def test_the_broker_s_limit_counts_for_topics_without_one(broker: MemoryBroker) -> None:
    await change(broker, (TOPIC, "u", [("max.message.bytes", SET, "1000")]))
    for name in ("", "1"):
        lower = (BROKER, name, [("message.max.bytes", SET, "100")])
        assert await change(broker, lower) == [DONE]
        assert await produced(broker, "t") == Code.MESSAGE_TOO_LARGE
        assert await produced(broker, "u") == Code.NONE
        await broker.create(f"new{name}")
        assert await produced(broker, f"new{name}") == Code.MESSAGE_TOO_LARGE
        unset = (BROKER, name, [("message.max.bytes", DELETE, None)])
        assert await change(broker, unset) == [DONE]
        assert await produced(broker, "t") == Code.NONE


@scenario(topics={"t": 1})
async def test_a_producer_that_repeats_itself_is_stopped_too(broker: MemoryBroker) -> None:
    for _ in range(5):
        assert await produced(broker) == Code.NONE
    await change(broker, (TOPIC, "t", [("max.message.bytes", SET, "100")]))
    assert await produced(broker) == Code.MESSAGE_TOO_LARGE


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
async def test_enough_replicas(broker: MemoryBroker) -> None:
    broker.share((1,))
    await change(broker, (BROKER, "", [("min.insync.replicas", SET, "2")]))
    assert await produced(broker) == Code.NOT_ENOUGH_REPLICAS
    await change(broker, (TOPIC, "t", [("min.insync.replicas", SET, "1")]))
    assert broker.replica().log.settings.min_insync_replicas == 1


@scenario(topics={"t": 1})
async def test_where_values_come_from(broker: MemoryBroker) -> None:
    async def received(kind: int, name: str, key: str) -> list[tuple[str, str, int]]:
        (result,) = await describe(broker, (kind, name, [key]), include_synonyms=True)
        return [(one.name, one.value, one.source) for one in result.configs[0].synonyms]

    key = "log.index.interval.bytes"
    await change(
        broker,
        (TOPIC, "t", [("index.interval.bytes", SET, "1")]),
        (BROKER, "1", [(key, SET, "2")]),
        (BROKER, "", [(key, SET, "3")]),
    )
    of_broker = [(key, "2", OF_BROKER), (key, "3", OF_ALL), (key, "4096", 5)]
    assert await received(BROKER, "1", key) == of_broker
    assert await received(BROKER, "", key) == [(key, "3", OF_ALL)]
    own = ("index.interval.bytes", "1", OF_TOPIC)
    assert await received(TOPIC, "t", "index.interval.bytes") == [own, *of_broker]
    answer = await broker.ask(
        "CreateTopics",
        7,
        timeout_ms=1000,
        topics=[{"name": "u", "num_partitions": 1, "replication_factor": 1}],
    )
    (found,) = [one for one in answer.topics[0].configs if one.name == "index.interval.bytes"]
    assert (found.value, found.config_source) == ("2", OF_BROKER)


@scenario(topics={"t": 1})
async def test_what_was_set_outlives_the_broker(broker: MemoryBroker) -> None:
    await change(
        broker,
        (TOPIC, "t", [("index.interval.bytes", SET, "1")]),
        (BROKER, "1", [("message.max.bytes", SET, "100")]),
        (BROKER, "", [("log.segment.bytes", SET, "5000000"), ("my.own", SET, "secret")]),
    )
    for end in (broker.restart, broker.kill, broker.crash):
        await end()
        assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "1"
        assert await value_of(broker, TOPIC, "t", "segment.bytes") == "5000000"
        assert await value_of(broker, BROKER, "1", "my.own") is None, "it may be a password"
        assert broker.replica().log.settings.segment_bytes == 5_000_000
        assert await produced(broker) == Code.MESSAGE_TOO_LARGE


@scenario(topics={"t": 1})
async def test_a_deleted_topic_takes_its_configs_along(broker: MemoryBroker) -> None:
    await change(broker, (TOPIC, "t", [("index.interval.bytes", SET, "1")]))
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    gone = [(Code.UNKNOWN_TOPIC_OR_PARTITION, "The topic 't' does not exist.")]
    assert await change(broker, (TOPIC, "t", [("index.interval.bytes", SET, "2")])) == gone
    await broker.create("t")
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "4096"


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
async def test_one_refusal_does_not_hold_the_others(broker: MemoryBroker) -> None:
    refused, done = await change(
        broker,
        (BROKER, "1", [("num.partitions", SET, "3")]),
        (TOPIC, "t", [("index.interval.bytes", SET, "1")]),
    )
    assert refused == (
        Code.INVALID_REQUEST,
        "Cannot update these configs dynamically: [num.partitions]",
    )
    assert done == DONE
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "1"


@scenario(topics={"t": 1})
async def test_many_at_once_on_one_connection(broker: MemoryBroker) -> None:
    outcomes = await asyncio.gather(
        *(
            change(broker, (TOPIC, "t", [("index.interval.bytes", SET, str(number))]))
            for number in range(20)
        )
    )
    assert outcomes == [[DONE]] * 20
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "19", "the last counts"


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
async def test_what_has_no_effect_is_told(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await change(
            broker,
            (TOPIC, "t", [("local.retention.ms", SET, " 5\n"), ("segment.ms", SET, "5")]),
            (BROKER, "", [("log.preallocate", SET, "true")]),
        )
    assert sorted(one.message for one in caplog.records) == [
        "no effect: log.preallocate (segment files grow as they are written)",
        "topic t: no effect: local.retention.ms=5 (there is no tiered storage)",
    ]


@scenario(topics={"t": 1})
async def test_what_there_is_none_of_is_refused(broker: MemoryBroker) -> None:
    outcomes = await change(
        broker,
        (GROUP, "g", [("share.session.timeout.ms", SET, "x")]),
        (GROUP, "h", [("share.session.timeout.ms", DELETE, None)]),
        (SUBSCRIPTION, "s", [("match", SET, "1000")]),
        (BROKER, "1", [("listener.name.plaintext.ssl.key.password", SET, "secret")]),
    )
    assert [code for code, _ in outcomes] == [
        Code.INVALID_CONFIG,
        Code.NONE,
        Code.INVALID_CONFIG,
        Code.INVALID_CONFIG,
    ]
    assert "secret" not in str(outcomes)


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.ALTER_CONFIGS)
    asked = [
        (TOPIC, "t", [("index.interval.bytes", SET, "1")]),
        (TOPIC, "missing", [("index.interval.bytes", SET, "1")]),
        (BROKER, "1", [("message.max.bytes", SET, "100")]),
        (BROKER, "", [("message.max.bytes", SET, "100")]),
        (LOGGER, "1", [("root", SET, "FATAL")]),
        (SUBSCRIPTION, "s", [("interval.ms", SET, "1000")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
    ]
    root = logging.root.level
    topic = (Code.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    cluster = (Code.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    group = (Code.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
    assert await change(broker, *asked) == [topic, topic, *[cluster] * 4, group]
    assert await value_of(broker, TOPIC, "t", "index.interval.bytes") == "4096"
    assert await value_of(broker, BROKER, "1", "message.max.bytes") == "1048588"
    assert logging.root.level == root
    broker.parts.authorizer = Denied((Operation.ALTER_CONFIGS, "u"))
    assert await change(broker, asked[0]) == [DONE]


@scenario(topics={"t": 1})
async def test_lists(broker: MemoryBroker) -> None:
    more = [("leader.replication.throttled.replicas", APPEND, "0:1,0:2")]
    assert await change(broker, (TOPIC, "t", more)) == [DONE]
    key = "leader.replication.throttled.replicas"
    assert await value_of(broker, TOPIC, "t", key) == "0:1,0:2"
