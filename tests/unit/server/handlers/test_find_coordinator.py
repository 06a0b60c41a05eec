"""FindCoordinator: who keeps a group or a transactional id, and the topics made for them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kavka.server.controller.topic_validation import TopicResult
from kavka.server.coordinators import base as coordinator
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

TOPIC = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = [(GROUP, TOPIC), (TRANSACTION, TRANSACTIONS)]
FACTORS = ["offsets.topic.replication.factor", "transaction.state.log.replication.factor"]
NO_NODE = (-1, "", -1)


async def find(broker: MemoryBroker, version: int, key: str = "g", kind: int = GROUP) -> Any:
    """What is said of one key."""
    request: dict[str, Any] = {"key_type": kind}
    if version < 4:
        return await broker.ask("FindCoordinator", version, key=key, **request)
    answer = await broker.ask("FindCoordinator", version, coordinator_keys=[key], **request)
    assert [described.key for described in answer.coordinators] == [key]
    return answer.coordinators[0]


def node(found: Any) -> tuple[int, str, int]:
    return found.node_id, found.host, found.port


async def configs(broker: MemoryBroker, topic: str = TOPIC) -> dict[str, str]:
    resources = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
    answer = await broker.ask("DescribeConfigs", 4, resources=resources)
    return {config.name: config.value for config in answer.results[0].configs}


@pytest.mark.parametrize(("kind", "topic"), TOPICS)
@scenario("offsets.topic.replication.factor=3", "transaction.state.log.replication.factor=3")
async def test_more_replicas_than_brokers_are_not_to_be_had(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, kind: int, topic: str
) -> None:
    """It is said once, however often clients ask, and with the setting that is to be changed."""
    setting = FACTORS[kind]
    assert broker.instance.health().is_healthy
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            found = await find(broker, 6, kind=kind)
            assert (found.error_code, node(found)) == (Code.COORDINATOR_NOT_AVAILABLE, NO_NODE)
    (line,) = caplog.messages
    assert topic in line and f"set {setting}=1" in line and f"{setting}=3" in line
    assert topic not in broker.parts.metadata.image.topics
    assert broker.instance.health().problems == (line,)
    await broker.advance(coordinator.CREATE_FAILURE_LOG_PERIOD_S * 1000)
    await find(broker, 6, kind=kind)
    assert caplog.messages == [line, line]
    await broker.create(topic, 3)
    await find(broker, 6, kind=kind)
    assert broker.instance.health().is_healthy, "the topic was created by other means"


@pytest.mark.parametrize(("kind", "topic"), TOPICS)
@scenario()
async def test_without_a_controller_a_creation_that_fails_is_not_an_error(
    broker: MemoryBroker,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: int,
    topic: str,
) -> None:
    """A failover is no reason for an alert; another failure is, although it comes soon after."""
    codes = [Code.NOT_CONTROLLER, Code.NOT_CONTROLLER, Code.POLICY_VIOLATION, Code.NOT_CONTROLLER]
    failures = iter(codes)

    async def fail(*_: Any, **__: Any) -> dict[str, TopicResult]:
        return {topic: TopicResult(next(failures), "not now")}

    monkeypatch.setattr(broker.parts.topic_creator, "create_topics", fail)
    with caplog.at_level(logging.INFO):
        for _ in codes:
            found = await find(broker, 6, kind=kind)
            assert (found.error_code, node(found)) == (Code.COORDINATOR_NOT_AVAILABLE, NO_NODE)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert all(f"{topic} can't be created: not now" in line for line in caplog.messages)
