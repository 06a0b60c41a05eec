"""DescribeConfigs over the wire. Values, sources and synonyms are judged by recorded answers of
Apache Kafka in `config/test_describe.py`; here it is which resource gets which answer."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kavka.server.handlers import describe_configs
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, LOGGER, TOPIC, describe
from support.memory_broker import MemoryBroker, scenario


@pytest.mark.parametrize("keys", [None, []])
@scenario(topics={"t": 1})
async def test_no_keys_means_all(broker: MemoryBroker, keys: list[str] | None) -> None:
    of_topic, of_broker = await describe(broker, (TOPIC, "t", keys), (BROKER, "1", keys))
    names = [config.name for config in of_topic.configs]
    assert {"cleanup.policy", "retention.ms", "segment.bytes"} <= set(names)
    assert names == sorted(names)
    assert len(of_broker.configs) > 100


@scenario()
async def test_loggers(broker: MemoryBroker) -> None:
    (result,) = await describe(broker, (LOGGER, "1", None), include_synonyms=True)
    found = {config.name: config for config in result.configs}
    assert {"root", "kavka.server.instance"} <= set(found)
    for config in found.values():
        assert config.value in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
        assert (config.config_source, config.read_only, config.is_sensitive) == (6, False, False)
        assert (config.config_type, config.synonyms, config.documentation) == (0, [], "")


@scenario(topics={"t": 1, "u": 1})
async def test_one_request_describes_a_limited_number_of_configs(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "CONFIGS_PER_REQUEST_MAX", 50)
    whole, *rest = await describe(broker, *[(BROKER, "1", None)] * 2, (TOPIC, "t", None))
    assert not whole.error_code
    assert len(whole.configs) > 50, "a resource that was begun is described completely"
    assert [(result.error_code, result.configs) for result in rest] == [
        (Code.POLICY_VIOLATION, [])
    ] * 2


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
    request = SimpleNamespace(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    context = RequestContext(Peer("PLAINTEXT", "somewhere"), 4, 1, None)
    answer = describe_configs.handle(broker.parts, context, request)
    assert [len(result.configs) for result in answer.results] == [1]
    assert keys.times < 5
