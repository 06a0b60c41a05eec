"""What of an alteration is decided where: before anything is stored, or against what is stored.

Over the wire; refusals and their order are compared with Apache Kafka's by the differential test.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

import pytest

from kavka.server.cluster.config_changes import Alteration, ConfigResourceType
from kavka.server.config import dynamic_rules
from kavka.server.handlers.common import alter_configs as altering
from kavka.server.handlers.common.alter_configs import SUBSCRIPTIONS_MAX
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from kavka.zktree.api import Op, OpResult, Overloaded
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
    value_of,
)
from support.memory_broker import MemoryBroker, scenario
from support.virtual import run_until_idle

DONE = (Code.NONE, None)
NO_OP = 4


async def store(broker: MemoryBroker, kind: str, name: str, **configs: str) -> None:
    """Put configs into the tree by another hand, and leave a note."""
    tree = broker.parts.coordination
    named = {key.replace("_", "."): text for key, text in configs.items()}
    await tree.create(paths.config(kind, name), paths.encode_config(named))
    data = paths.encode_config_change(kind, name)
    created = await tree.create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True)
    await broker.parts.topic_configs.processed(created.path.rpartition("/")[2])


@scenario(topics={"t": 1})
async def test_what_was_stored_by_another_hand_is_in_force(broker: MemoryBroker) -> None:
    await store(broker, paths.BROKER_CONFIGS, "1", message_max_bytes="100")
    assert broker.replica().log.settings.max_message_bytes == 100


@scenario(topics={"t": 1})
async def test_bad_configs_of_a_broker_do_not_hold_good_ones(broker: MemoryBroker) -> None:
    await store(broker, paths.BROKER_CONFIGS, "1", log_segment_bytes="x", num_partitions="7")
    lower = (BROKER, "1", [("message.max.bytes", SET, "100")])
    assert await change(broker, lower) == [DONE]
    assert broker.replica().log.settings.max_message_bytes == 100


@scenario(topics={"t": 1})
async def test_bad_configs_of_a_topic_must_be_mended_first(broker: MemoryBroker) -> None:
    await broker.create("u", configs={"segment.bytes": "2000000"})
    tree = broker.parts.coordination
    data = paths.encode_config({"segment.bytes": "x"})
    await tree.set(paths.config(paths.TOPIC_CONFIGS, "u"), data)
    other = (TOPIC, "u", [("index.interval.bytes", SET, "1")])
    ((code, message),) = await change(broker, other)
    assert code == Code.INVALID_CONFIG
    assert message == ("Invalid value x for configuration segment.bytes: Not a number of type INT")
    mended = (TOPIC, "u", [("segment.bytes", SET, "3000000")])
    assert await change(broker, mended) == [DONE]
    assert broker.replica("u").log.settings.segment_bytes == 3_000_000


@scenario("log.cleaner.max.compaction.lag.ms=50", topics={"t": 1})
async def test_a_topic_must_fit_the_broker_too(broker: MemoryBroker) -> None:
    ((code, message),) = await change(broker, (TOPIC, "t", [("min.compaction.lag.ms", SET, "60")]))
    assert code == Code.INVALID_CONFIG
    assert message == (
        "conflict topic config setting min.compaction.lag.ms (60) > max.compaction.lag.ms (50)"
    )
    await change(broker, (BROKER, "1", [("log.cleaner.max.compaction.lag.ms", SET, "70")]))
    fits = (TOPIC, "t", [("min.compaction.lag.ms", SET, "60")])
    assert await change(broker, fits) == [DONE]


@scenario(topics={"t": 1, "u": 1})
async def test_an_operation_that_there_is_not(broker: MemoryBroker) -> None:
    outcomes = await change(
        broker,
        (TOPIC, "t", [("index.interval.bytes", NO_OP, "1")]),
        (TOPIC, "u", [("index.interval.bytes", SET, "1")]),
        (BROKER, "1", [("message.max.bytes", NO_OP, "1")]),
        (LOGGER, "1", [("root", NO_OP, "INFO")]),
        (64, "x", []),
    )
    assert outcomes == [
        (Code.UNKNOWN_SERVER_ERROR, None),
        (Code.UNKNOWN_SERVER_ERROR, None),
        (Code.INVALID_REQUEST, "Unknown operations type 4"),
        (Code.UNKNOWN_SERVER_ERROR, None),
        (Code.INVALID_REQUEST, "Unknown resource type 64"),
    ]
    assert await value_of(broker, TOPIC, "u", "index.interval.bytes") == "4096"


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code", "message"),
    [
        (GROUP, "", {}, Code.INVALID_REQUEST, "Default group resources are not allowed."),
        (SUBSCRIPTION, "", {}, Code.INVALID_REQUEST, "Subscription name can't be empty"),
        (GROUP, "g", {"no": "1"}, Code.INVALID_CONFIG, "Unknown group config name: no"),
        (
            SUBSCRIPTION,
            "s",
            {"no": "1"},
            Code.INVALID_REQUEST,
            "Unknown client metrics configuration: no",
        ),
        (
            SUBSCRIPTION,
            "s",
            {"interval.ms": "x"},
            Code.INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
    ],
)
@scenario()
async def test_what_is_refused(
    broker: MemoryBroker, kind: int, name: str, configs: dict[str, str], code: int, message: str
) -> None:
    changes = [(key, SET, value) for key, value in configs.items()]
    assert await change(broker, (kind, name, changes)) == [(code, message)]


@scenario()
async def test_items_can_not_be_added_to_what_is_no_list(broker: MemoryBroker) -> None:
    outcomes = await change(
        broker,
        (SUBSCRIPTION, "s", [("metrics", APPEND, "a")]),
        (BROKER, "1", [("no.such", APPEND, "a")]),
        (BROKER, "", [("message.max.bytes", APPEND, "1")]),
    )
    assert outcomes == [
        (Code.INVALID_CONFIG, "Can't APPEND to key metrics because its type is not LIST."),
        (Code.INVALID_CONFIG, "Unknown config name: no.such"),
        (
            Code.INVALID_CONFIG,
            "Config value append is not allowed for config key: message.max.bytes",
        ),
    ]


@scenario()
async def test_loggers_are_set_before_the_rest_is_looked_at(broker: MemoryBroker) -> None:
    name = "kavka.server.handlers.common.alter_configs"
    try:
        outcomes = await change(
            broker,
            (TOPIC, "missing", [("index.interval.bytes", SET, "1")]),
            (LOGGER, "1", [(name, SET, "ERROR")]),
        )
        assert [code for code, _ in outcomes] == [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NONE]
        assert logging.getLogger(name).level == logging.ERROR
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


@scenario(topics={f"t{number}": 1 for number in range(20)})
async def test_changes_of_one_request_share_syncs_of_the_disk(broker: MemoryBroker) -> None:
    broker.jobs.done.clear()
    alterations = [
        (TOPIC, f"t{number}", [("index.interval.bytes", SET, "1")]) for number in range(20)
    ]
    assert await change(broker, *alterations) == [DONE] * 20
    assert broker.replica("t19").log.settings.index_interval_bytes == 1
    assert broker.jobs.done.count("Storage.append") < 5


@pytest.mark.parametrize("name", ["no.such", "t"])
@scenario(topics={"t": 1})
async def test_other_requests_are_served_meanwhile(
    broker: MemoryBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both where names differ, and where what is named over and over is refused at a glance."""
    monkeypatch.setattr(altering, "RESOURCES_PER_STEP", 3)
    alterations = [
        Alteration(ConfigResourceType.TOPIC, name if name == "t" else f"{name}.{number}", [])
        for number in range(60)
    ]
    context = RequestContext(Peer("PLAINTEXT", "somewhere"), 1, 1, None)
    waiting = asyncio.ensure_future(
        altering.alter(broker.parts, context, alterations, validate_only=True)
    )
    await run_until_idle(15)
    assert not waiting.done()
    await run_until_idle(200)
    expected = Code.INVALID_REQUEST if name == "t" else Code.UNKNOWN_TOPIC_OR_PARTITION
    assert [outcome.code for outcome in waiting.result()] == [expected] * 60


@scenario(topics={"t": 1, "u": 1})
async def test_one_that_fails_leaves_the_others_alone(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    tree = broker.parts.coordination
    await tree.set(paths.config(paths.TOPIC_CONFIGS, "t"), b"no JSON")
    alterations = [(TOPIC, name, [("index.interval.bytes", SET, "1")]) for name in ("t", "u")]
    with caplog.at_level(logging.ERROR):
        outcomes = await change(broker, *alterations)
    assert outcomes == [(Code.UNKNOWN_SERVER_ERROR, None), DONE]
    assert [record.message for record in caplog.records] == ["can't change configs of TOPIC t"]
    assert broker.replica("u").log.settings.index_interval_bytes == 1


@scenario(topics={"t": 1, "u": 1})
async def test_a_tree_that_takes_no_more_fails_what_it_did_not_take(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = broker.parts.coordination
    original = tree.multi

    def multi(ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        if any(op.path.endswith("/t") for op in ops):
            raise Overloaded
        return original(ops)

    monkeypatch.setattr(tree, "multi", multi)
    alterations = [(TOPIC, name, [("index.interval.bytes", SET, "1")]) for name in ("t", "u")]
    refused = (Code.UNKNOWN_SERVER_ERROR, "The coordination service failed: Overloaded")
    assert await change(broker, *alterations) == [refused, DONE]


@scenario(topics={"t": 1})
async def test_there_is_a_limit_to_what_one_resource_has(broker: MemoryBroker) -> None:
    names = [f"own.{number}" for number in range(1001)]
    few, many = ([(name, SET, "1") for name in names[:count]] for count in (1000, 1001))
    for name in ("1", ""):
        assert await change(broker, (BROKER, name, few)) == [DONE]
        refused = (Code.INVALID_REQUEST, "There can be no more than 1000 configs.")
        assert await change(broker, (BROKER, name, many)) == [refused]
        assert await change(broker, (BROKER, name, [(names[-1], SET, "1")])) == [refused]
        assert await change(broker, (BROKER, name, [(names[0], DELETE, None)])) == [DONE]


@scenario(topics={"t": 1})
async def test_configs_of_a_topic_have_so_many_characters(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_rules, "CONFIGS_CHARACTERS_MAX", 20_000)
    replicas = [
        (f"{role}.replication.throttled.replicas", SET, "10000:10000," * 1_000 + "1:1")
        for role in ("leader", "follower")
    ]
    assert await change(broker, (TOPIC, "t", replicas[:1])) == [DONE]
    refused = (Code.INVALID_CONFIG, "All configs can't have more than 20000 characters.")
    assert await change(broker, (TOPIC, "t", replicas[1:])) == [refused]


@scenario()
async def test_subscriptions_are_kept_and_listed(broker: MemoryBroker) -> None:
    name = "../odd ~ näme"
    changes = [("interval.ms", SET, "1000"), ("metrics", SET, "a,b")]
    assert await change(broker, (SUBSCRIPTION, name, changes)) == [DONE]
    for end in (broker.restart, broker.kill):
        await end()
        assert await value_of(broker, SUBSCRIPTION, name, "interval.ms") == "1000"
        answer = await broker.ask("ListConfigResources", 0)
        found = [
            (resource.resource_type, resource.resource_name) for resource in answer.config_resources
        ]
        assert found == [(SUBSCRIPTION, name)]
    gone = [(key, DELETE, None) for key, _, _ in changes]
    assert await change(broker, (SUBSCRIPTION, name, gone)) == [DONE]
    assert await value_of(broker, SUBSCRIPTION, name, "interval.ms") == "300000"
    assert not (await broker.ask("ListConfigResources", 0)).config_resources


@scenario()
async def test_there_are_only_so_many_subscriptions(broker: MemoryBroker) -> None:
    set_one = [("interval.ms", SET, "1000")]
    names = [str(number) for number in range(SUBSCRIPTIONS_MAX)]
    done = await change(broker, *((SUBSCRIPTION, name, set_one) for name in names))
    assert done == [DONE] * SUBSCRIPTIONS_MAX
    ((code, _),) = await change(broker, (SUBSCRIPTION, "more", set_one))
    assert code == Code.POLICY_VIOLATION
    again = [("interval.ms", SET, "2000")]
    assert await change(broker, (SUBSCRIPTION, "7", again)) == [DONE], "it is there already"
