"""FindCoordinator: who keeps a group or a transactional id, and the topics made for them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.coordinators import base as coordinator
from kavka.wire.apis.find_coordinator import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
TOPIC = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = [(GROUP, TOPIC), (TRANSACTION, TRANSACTIONS)]
FACTORS = ["offsets.topic.replication.factor", "transaction.state.log.replication.factor"]
NOBODY = (-1, "", -1)
INVALID = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Apache Kafka 4.3.1's words, as the differential test has them."""


async def find(broker: MemoryBroker, version: int, key: str = "g", kind: int = GROUP) -> Any:
    """What is said of one key."""
    asked: dict[str, Any] = {"key_type": kind}
    if version < 4:
        return await broker.ask("FindCoordinator", version, key=key, **asked)
    answer = await broker.ask("FindCoordinator", version, coordinator_keys=[key], **asked)
    assert [one.key for one in answer.coordinators] == [key]
    return answer.coordinators[0]


def node(found: Any) -> tuple[int, str, int]:
    return found.node_id, found.host, found.port


async def configs(broker: MemoryBroker, topic: str = TOPIC) -> dict[str, str]:
    resources = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
    answer = await broker.ask("DescribeConfigs", 4, resources=resources)
    return {one.name: one.value for one in answer.results[0].configs}


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_group_has_one_at_once(broker: MemoryBroker, version: int) -> None:
    for _ in range(2):
        found = await find(broker, version)
        assert found.error_code == Code.NONE
        assert node(found) == (1, *broker.instance.addresses["PLAINTEXT"])
    assert len(broker.parts.metadata.image.topics[TOPIC].partitions) == 50
    assert broker.parts.groups.read("g", lambda shard, _: len(shard.state.groups)) == 0


@pytest.mark.parametrize("version", VERSIONS[1:])
@scenario()
async def test_so_has_a_transactional_id(broker: MemoryBroker, version: int) -> None:
    for _ in range(2):
        found = await find(broker, version, "tx", TRANSACTION)
        assert found.error_code == Code.NONE
        assert node(found) == (1, *broker.instance.addresses["PLAINTEXT"])
    assert list(broker.parts.metadata.image.topics) == [TRANSACTIONS]
    assert len(broker.parts.metadata.image.topics[TRANSACTIONS].partitions) == 50


@pytest.mark.parametrize("version", range(4, API.highest + 1))
@scenario()
async def test_many_at_once(broker: MemoryBroker, version: int) -> None:
    keys = ["a", "", "\N{GRINNING FACE}", "a"]
    answer = await broker.ask("FindCoordinator", version, key_type=GROUP, coordinator_keys=keys)
    assert [(one.key, one.node_id) for one in answer.coordinators] == [(key, 1) for key in keys]
    answer = await broker.ask("FindCoordinator", version, key_type=GROUP, coordinator_keys=[])
    assert answer.coordinators == []


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_who_may_not_know_is_not_told(broker: MemoryBroker, version: int) -> None:
    broker.parts.authorizer = Denied(Operation.DESCRIBE)
    found = await find(broker, version)
    assert found.error_code == Code.GROUP_AUTHORIZATION_FAILED
    assert node(found) == NOBODY
    assert TOPIC not in broker.parts.metadata.image.topics
    if version:
        found = await find(broker, version, kind=TRANSACTION)
        assert found.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert not broker.parts.metadata.image.topics


@scenario()
async def test_each_key_has_an_answer_of_its_own(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "secret"))
    answer = await broker.ask(
        "FindCoordinator", 6, key_type=GROUP, coordinator_keys=["secret", "open"]
    )
    codes = [one.error_code for one in answer.coordinators]
    assert codes == [Code.GROUP_AUTHORIZATION_FAILED, Code.NONE]


@pytest.mark.parametrize("version", VERSIONS[1:])
@scenario()
async def test_what_is_not_served(broker: MemoryBroker, version: int) -> None:
    for kind in (SHARE, 3, -1):
        found = await find(broker, version, key="g:t:0", kind=kind)
        assert (found.error_code, node(found)) == (Code.INVALID_REQUEST, NOBODY)
        received = version < 4 or kind != SHARE
        assert found.error_message == (INVALID if received else "")
    assert not broker.parts.metadata.image.topics


@scenario()
async def test_the_topic_is_apache_kafkas(broker: MemoryBroker) -> None:
    await find(broker, 6)
    found = await configs(broker)
    assert found["cleanup.policy"] == "compact"
    assert found["compression.type"] == "producer"
    assert found["segment.bytes"] == "104857600"
    metadata = await broker.ask("Metadata", 9, topics=[{"name": TOPIC}])
    assert metadata.topics[0].is_internal


@scenario()
async def test_so_is_the_topic_of_transactions(broker: MemoryBroker) -> None:
    await find(broker, 6, kind=TRANSACTION)
    found = await configs(broker, TRANSACTIONS)
    assert found["cleanup.policy"] == "compact"
    assert found["compression.type"] == "uncompressed"
    assert found["segment.bytes"] == "104857600"
    assert found["min.insync.replicas"] == "2"
    assert found["unclean.leader.election.enable"] == "false"
    metadata = await broker.ask("Metadata", 9, topics=[{"name": TRANSACTIONS}])
    assert metadata.topics[0].is_internal


@scenario(
    "transaction.state.log.num.partitions=3",
    "transaction.state.log.segment.bytes=1048576",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.replication.factor=1",
)
async def test_its_settings_count(broker: MemoryBroker) -> None:
    assert broker.parts.transactions.partition_count == 3
    await find(broker, 6, kind=TRANSACTION)
    assert len(broker.parts.metadata.image.topics[TRANSACTIONS].partitions) == 3
    found = await configs(broker, TRANSACTIONS)
    assert (found["segment.bytes"], found["min.insync.replicas"]) == ("1048576", "1")


@scenario(
    "offsets.topic.num.partitions=3",
    "offsets.topic.segment.bytes=1048576",
    "offsets.topic.replication.factor=1",
)
async def test_the_settings_count(broker: MemoryBroker) -> None:
    assert broker.parts.groups.partition_count == 3
    await find(broker, 6)
    assert len(broker.parts.metadata.image.topics[TOPIC].partitions) == 3
    assert (await configs(broker))["segment.bytes"] == "1048576"


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
            assert (found.error_code, node(found)) == (Code.COORDINATOR_NOT_AVAILABLE, NOBODY)
    (line,) = caplog.messages
    assert topic in line and f"set {setting}=1" in line and f"{setting}=3" in line
    assert topic not in broker.parts.metadata.image.topics
    assert broker.instance.health().problems == (line,)
    await broker.advance(coordinator.CREATE_FAILURE_LOG_PERIOD_S * 1000)
    await find(broker, 6, kind=kind)
    assert caplog.messages == [line, line]
    await broker.create(topic, 3)
    await find(broker, 6, kind=kind)
    assert broker.instance.health().is_healthy, "somebody has made it otherwise"


@scenario()
async def test_who_asks_while_it_is_made_waits_as_well(broker: MemoryBroker) -> None:
    other = broker.connect()
    broker.jobs.hold()
    asked = {"key_type": GROUP, "coordinator_keys": ["g"]}
    first = broker.tasks.spawn(broker.ask("FindCoordinator", 6, **asked), name="first")
    second = broker.tasks.spawn(other.ask("FindCoordinator", 6, **asked), name="second")
    await broker.advance(10)
    assert not first.done()
    assert not second.done()
    broker.jobs.release()
    for answer in (await first, await second):
        assert answer.coordinators[0].error_code == Code.NONE


@scenario()
async def test_a_topic_that_others_made_is_taken_as_it_is(broker: MemoryBroker) -> None:
    await broker.create(TOPIC, 7)
    assert (await find(broker, 6)).node_id == 1
    assert broker.parts.groups.partition_count == 7
