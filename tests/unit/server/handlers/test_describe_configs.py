"""DescribeConfigs over the wire. Values, sources and synonyms are judged by recorded answers of
Apache Kafka in `config/test_describe.py`; here it is which resource gets which answer."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_configs
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.apis.describe_configs import API
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, GROUP, LOGGER, SUBSCRIPTION, TOPIC, change, describe
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
OF_TOPIC, STATIC, DEFAULT = 1, 4, 5
LONG = 5
OVERRIDES = {"retention.ms": "1000"}


@pytest.mark.parametrize("version", VERSIONS)
@scenario("log.segment.bytes=5000000")
async def test_a_topic(broker: MemoryBroker, version: int) -> None:
    await broker.create("t", configs=OVERRIDES)
    keys = ["retention.ms", "segment.bytes", "max.message.bytes", "no.such"]
    asked = {"include_synonyms": True, "include_documentation": True}
    (result,) = await describe(broker, (TOPIC, "t", keys), version=version, **asked)
    assert (result.error_code, result.error_message) == (Code.NONE, "")
    assert (result.resource_type, result.resource_name) == (TOPIC, "t")
    found = {config.name: config for config in result.configs}
    values = {name: config.value for name, config in found.items()}
    assert values == {
        "retention.ms": "1000",
        "segment.bytes": "5000000",
        "max.message.bytes": "1048588",
    }
    sources = {name: config.config_source for name, config in found.items()}
    received = {"retention.ms": OF_TOPIC, "segment.bytes": STATIC, "max.message.bytes": DEFAULT}
    assert sources == (received if version >= 1 else dict.fromkeys(received, -1))
    defaults = {name for name, config in found.items() if config.is_default}
    assert defaults == ({"max.message.bytes"} if version == 0 else set())
    synonyms = [(one.name, one.value, one.source) for one in found["segment.bytes"].synonyms]
    static = ("log.segment.bytes", "5000000", STATIC)
    default = ("log.segment.bytes", "1073741824", DEFAULT)
    assert synonyms == ([static, default] if version >= 1 else [])
    assert found["retention.ms"].config_type == (LONG if version >= 3 else 0)
    assert bool(found["retention.ms"].documentation) == (version >= 3)


@pytest.mark.parametrize("version", VERSIONS)
@scenario("num.partitions=7")
async def test_this_broker(broker: MemoryBroker, version: int) -> None:
    for name in ("1", "+1", "01"):
        (result,) = await describe(broker, (BROKER, name, ["num.partitions"]), version=version)
        assert result.error_code == Code.NONE
        (config,) = result.configs
        assert (config.name, config.value) == ("num.partitions", "7")
        assert config.read_only
        assert list(config.synonyms) == [], "they were not asked for"
        assert not config.documentation


@pytest.mark.parametrize("keys", [None, []])
@scenario(topics={"t": 1})
async def test_no_keys_means_all(broker: MemoryBroker, keys: list[str] | None) -> None:
    of_topic, of_broker = await describe(broker, (TOPIC, "t", keys), (BROKER, "1", keys))
    names = [config.name for config in of_topic.configs]
    assert {"cleanup.policy", "retention.ms", "segment.bytes"} <= set(names)
    assert names == sorted(names)
    assert len(of_broker.configs) > 100


@scenario(topics={"t": 1})
async def test_resources_that_there_are_not(broker: MemoryBroker) -> None:
    refused: list[tuple[int, str, Code]] = [
        (TOPIC, "gone", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", Code.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", Code.INVALID_REQUEST),
        (BROKER, "x", Code.INVALID_REQUEST),
        (BROKER, " 1", Code.INVALID_REQUEST),
        (BROKER, "1_0", Code.INVALID_REQUEST),
        (BROKER, "-1", Code.INVALID_REQUEST),
        (LOGGER, "7", Code.INVALID_REQUEST),
        (LOGGER, "", Code.INVALID_REQUEST),
        (GROUP, "", Code.INVALID_REQUEST),
        (SUBSCRIPTION, "", Code.INVALID_REQUEST),
    ]
    asked = [(kind, name, None) for kind, name, _ in refused]
    *results, well = await describe(broker, *asked, (TOPIC, "t", ["retention.ms"]))
    found = [(one.resource_type, one.resource_name, one.error_code) for one in results]
    assert found == refused
    assert not any(one.configs for one in results)
    assert len(well.configs) == 1, "and the others are answered"


@pytest.mark.parametrize("kind", [0, 1, 3, 5, 64, -1])
@scenario(topics={"t": 1})
async def test_a_kind_that_there_is_not_spoils_all(broker: MemoryBroker, kind: int) -> None:
    results = await describe(broker, (TOPIC, "t", None), (kind, "x", None))
    assert [(one.error_code, one.configs) for one in results] == [(Code.INVALID_REQUEST, [])] * 2
    assert results[0].error_message.startswith("This most likely occurs because of a request")


@scenario()
async def test_loggers(broker: MemoryBroker) -> None:
    (result,) = await describe(broker, (LOGGER, "1", None), include_synonyms=True)
    found = {config.name: config for config in result.configs}
    assert {"root", "kavka.server.instance"} <= set(found)
    for config in found.values():
        assert config.value in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
        assert (config.config_source, config.read_only, config.is_sensitive) == (6, False, False)
        assert (config.config_type, config.synonyms, config.documentation) == (0, [], "")


@scenario()
async def test_groups_and_subscriptions_have_the_defaults(broker: MemoryBroker) -> None:
    asked = [(GROUP, "any", ["consumer.session.timeout.ms"]), (SUBSCRIPTION, "any", None)]
    group, subscription = await describe(broker, *asked)
    assert [(one.value, one.config_source) for one in group.configs] == [("45000", DEFAULT)]
    names = [one.name for one in subscription.configs]
    assert names == ["interval.ms", "match", "metrics"]


@pytest.mark.parametrize("resources", [1, 20])
@scenario(topics={"t": 1})
async def test_others_have_their_turn_meanwhile(broker: MemoryBroker, resources: int) -> None:
    broker_itself = SimpleNamespace(resource_type=BROKER, resource_name="1", configuration_keys=[])
    asked = SimpleNamespace(
        resources=[broker_itself] * resources, include_synonyms=True, include_documentation=True
    )
    context = RequestContext(Peer("PLAINTEXT", "somewhere"), 4, 1, None)
    turns = sum(1 for _ in describe_configs._describe(broker.parts, context, asked))
    assert turns >= resources * 300 // describe_configs.CONFIGS_A_SLICE

    results = await describe(broker, *[(BROKER, "1", None)] * resources)
    names = [config.name for config in results[0].configs]
    assert all([config.name for config in one.configs] == names for one in results)
    assert len(set(names)) == len(names) > 300


@scenario()
async def test_defaults_of_all_brokers_are_empty_at_first(broker: MemoryBroker) -> None:
    (result,) = await describe(broker, (BROKER, "", None))
    assert (result.error_code, result.configs) == (Code.NONE, [])
    await change(broker, (BROKER, "", [("log.retention.ms", 0, " 5")]))
    (result,) = await describe(broker, (BROKER, "", None), include_synonyms=True)
    (config,) = result.configs
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", " 5", 3)


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.DESCRIBE_CONFIGS)
    results = await describe(broker, (TOPIC, "t", None), (BROKER, "1", None))
    assert [one.error_code for one in results] == [
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
    ]


@scenario()
async def test_overrides_outlive_the_broker(broker: MemoryBroker) -> None:
    await broker.create("t", configs=OVERRIDES)
    for end in (broker.restart, broker.kill, broker.crash):
        await end()
        (result,) = await describe(broker, (TOPIC, "t", ["retention.ms"]))
        assert [config.value for config in result.configs] == ["1000"]
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    await broker.create("t")
    (result,) = await describe(broker, (TOPIC, "t", ["retention.ms"]))
    assert [config.value for config in result.configs] == ["604800000"], "not the old topic's"


@scenario(topics={"t": 1, "u": 1})
async def test_one_request_is_not_told_without_end(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "CONFIGS_PER_REQUEST_MAX", 50)
    whole, *rest = await describe(broker, *[(BROKER, "1", None)] * 2, (TOPIC, "t", None))
    assert not whole.error_code
    assert len(whole.configs) > 50, "what was begun is told to its end"
    assert [(one.error_code, one.configs) for one in rest] == [(Code.POLICY_VIOLATION, [])] * 2


class CountedKeys(list[str]):
    """Keys that are to be gone through few times, however many configs there are."""

    times = 0

    def __contains__(self, key: object) -> bool:
        self.times += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("kind", [BROKER, LOGGER])
@scenario()
async def test_keys_are_not_searched_once_for_each_config(broker: MemoryBroker, kind: int) -> None:
    keys = CountedKeys(["message.max.bytes", "kavka.server.instance"])
    resource = SimpleNamespace(resource_type=kind, resource_name="1", configuration_keys=keys)
    asked = SimpleNamespace(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    context = RequestContext(Peer("PLAINTEXT", "somewhere"), 4, 1, None)
    answer = describe_configs.handle(broker.parts, context, asked)
    assert [len(one.configs) for one in answer.results] == [1]
    assert keys.times < 5
