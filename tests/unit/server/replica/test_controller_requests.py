"""The controller's requests to this broker. Codes: API.md's inter-broker part, which is Apache
Kafka 3.9's."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.log.memfs import Fault
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.config.dynamic_rules import Dynamic
from kavka.server.replica import controller_requests
from kavka.wire.errors import ErrorCode as Code
from support.async_scenarios import scenario_on_loop
from support.memory_broker import MemoryBroker, scenario
from support.replica_machine import ReplicaMachine
from support.replicas import Hosting, leading, stopping
from support.scenarios import Scenario, scenario_files
from support.virtual import run_until_idle


@scenario_files("replica/leader_and_isr", "replica/log_directories")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario_on_loop(scenario, rewrite, ReplicaMachine)


async def test_a_request_under_way_creates_no_log_when_the_broker_stops(
    hosting: Hosting,
) -> None:
    begun = hosting.tasks.spawn(
        hosting.port.leader_and_isr(leading("t", *range(10))), name="request"
    )
    await run_until_idle(2)
    created = [replica.key[1] for replica in hosting.manager]
    hosting.port.close()
    response = await begun
    assert 0 < len(created) < 10
    assert [replica.key[1] for replica in hosting.manager] == created
    rest = [TopicPartition("t", index) for index in range(10) if index not in created]
    assert response.partition_errors == dict.fromkeys(rest, Code.BROKER_NOT_AVAILABLE)
    stopped = await hosting.port.stop_replica(stopping("t", 0))
    assert stopped.partition_errors == {TopicPartition("t", 0): Code.BROKER_NOT_AVAILABLE}
    assert [replica.key[1] for replica in hosting.manager] == created


async def test_configs_of_many_partitions_are_changed_in_several_turns(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_requests, "CONFIGURED_PER_STEP", 2)
    await hosting.lead("t", *range(6))

    def limits() -> list[int]:
        return [replica.log.settings.max_message_bytes for replica in hosting.manager.of_topic("t")]

    hosting.overrides.change("t", {"max.message.bytes": "300"})
    assert limits() == [300] * 2 + [1_048_588] * 4
    await run_until_idle()
    assert limits() == [300] * 6


@pytest.mark.parametrize("per_turn", [1, 2, 500])
async def test_new_defaults_of_the_broker_reach_all_logs(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch, per_turn: int
) -> None:
    monkeypatch.setattr(controller_requests, "CONFIGURED_PER_STEP", per_turn)
    await hosting.lead("t", 0, 1, 2)
    await hosting.lead("u")
    hosting.overrides.change("u", {"max.message.bytes": "300"})
    start = hosting.live.now
    changed = Dynamic({"message.max.bytes": "200", "log.segment.bytes": "2000000"}, {})
    hosting.live.change(start.with_dynamic(changed))
    await run_until_idle()
    found = [
        (replica.log.settings.max_message_bytes, replica.log.settings.segment_bytes)
        for replica in hosting.manager
    ]
    assert found == [(200, 2_000_000)] * 3 + [(300, 2_000_000)]


@scenario("log.dirs=/data,/more")
async def test_a_topic_whose_log_cannot_be_created_has_no_leader(broker: MemoryBroker) -> None:
    """Until the disk works again and the broker restarts."""
    broker.fs.faults.append(Fault("create", "t-0/00000000000000000000.log", times=2))
    request = {"timeout_ms": 1000, "topics": [new_topic("t")]}
    broker.client.send("CreateTopics", 7, **request)
    await broker.advance(1000)
    (topic,) = (await broker.ask("Metadata", 9, topics=[{"name": "t"}])).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (Code.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [1]
    assert (await broker.produce(build())).error_code == Code.KAFKA_STORAGE_ERROR
    assert broker.failed == 1, "no directory is left"
    await broker.restart()
    assert (await broker.produce(build())).error_code == Code.NONE
