"""ListConfigResources over the wire. Kinds and their mixtures are compared with Apache Kafka's
answers by the differential test."""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import Operation
from kavka.wire.errors import ErrorCode as Code
from support.config_requests import BROKER, LOGGER, SUBSCRIPTION, TOPIC
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario


async def listed(
    broker: MemoryBroker, *kinds: int, version: int = 1
) -> tuple[int, list[tuple[int, str]]]:
    values: dict[str, Any] = {"resource_types": list(kinds)} if version else {}
    answer = await broker.ask("ListConfigResources", version, **values)
    found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    return answer.error_code, found


@scenario("broker.id=3", topics={"t": 1, "u": 1})
async def test_what_there_is(broker: MemoryBroker) -> None:
    brokers = [(LOGGER, "3"), (BROKER, "3")]
    topics = [(TOPIC, "t"), (TOPIC, "u")]
    assert await listed(broker) == (Code.NONE, [*brokers, *topics])
    assert await listed(broker, TOPIC) == (Code.NONE, topics)
    assert await listed(broker, BROKER, LOGGER) == (Code.NONE, brokers)
    assert await listed(broker, SUBSCRIPTION) == (Code.NONE, [])
    assert await listed(broker, version=0) == (Code.NONE, []), "subscriptions only"


@scenario(topics={"t": 1})
async def test_an_unknown_kind_spoils_all(broker: MemoryBroker) -> None:
    assert await listed(broker, TOPIC, 64) == (Code.UNSUPPORTED_VERSION, [])


@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.DESCRIBE_CONFIGS)
    for version in (0, 1):
        code, found = await listed(broker, version=version)
        assert (code, found) == (Code.CLUSTER_AUTHORIZATION_FAILED, [])
