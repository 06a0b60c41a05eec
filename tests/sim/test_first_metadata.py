"""Clients connect to a broker as soon as it listens: it describes the whole cluster to them, or
nothing yet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.server.controller.events import CHUNK_PARTITIONS
from kavka.wire.errors import ErrorCode as Code
from sim.cluster import ATTEMPT_S, Cluster, live
from sim.machine import Machine
from sim.network import Quality

PARTITIONS = 2 * CHUNK_PARTITIONS + 10
"""The controller describes them in three requests."""

RESTARTS = 1
MEMBER = "m" * 22


async def _ask_until_started(cluster: Cluster, machine: Machine) -> int:
    """How often it answered before its start was over; each time all there is."""
    requested = [{"name": "t", "topic_id": None}, {"name": "never", "topic_id": None}]
    starting = asyncio.ensure_future(machine.started())
    answers = 0
    while not starting.done() or not answers:
        topics = cluster.chance.choice([requested, None])
        try:
            answer = await cluster.ask(
                machine, "Metadata", 12, topics=topics, allow_auto_topic_creation=False
            )
        except OSError:
            await asyncio.sleep(0.001)
            continue
        answers += 1
        found = {topic.name: topic for topic in answer.topics}
        assert len(found["t"].partitions) == PARTITIONS and not found["t"].error_code
        assert len(answer.brokers) == 3
    await starting
    return answers


async def restarts(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], partitions=PARTITIONS)
    for _ in range(RESTARTS):
        for machine in cluster.machines:
            await cluster.in_sync(1, 2, 3)
            machine.kill()
            machine.launch()
            await _ask_until_started(cluster, machine)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_broker_that_has_just_started_describes_all_topics(seed: int) -> None:
    cluster = Cluster(seed, 3)
    cluster.network.quality = Quality(latency_s=0.005)
    live(cluster, restarts)


async def _heartbeat(cluster: Cluster, epoch: int, **values: Any) -> Any:
    """Of the only member of a group, until the coordinator answers without an error."""
    request = {"group_id": "g", "member_id": MEMBER, "member_epoch": epoch, "instance_id": None}
    while True:
        try:
            found = await cluster.ask(
                cluster.chance.choice(cluster.machines), "FindCoordinator", 2, key="g", key_type=0
            )
            if found.error_code == Code.NONE:
                answer = await cluster.ask(
                    cluster.machine(found.node_id), "ConsumerGroupHeartbeat", 1, **request, **values
                )
                if answer.error_code == Code.NONE:
                    return answer
                assert Code(answer.error_code).retriable, answer
        except OSError:
            pass
        await asyncio.sleep(ATTEMPT_S / 20)


async def restart_with_a_group(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], partitions=PARTITIONS)
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"]}
    joined = await _heartbeat(cluster, 0, **joining, topic_partitions=[])
    (assigned,) = joined.assignment.topic_partitions
    assert sorted(assigned.partitions) == list(range(PARTITIONS))
    for _ in range(RESTARTS):
        await cluster.in_sync(1, 2, 3)
        for machine in cluster.machines:
            machine.kill()
        for machine in cluster.machines:
            machine.launch()
        answer = await _heartbeat(cluster, joined.member_epoch)
        assert answer.member_epoch == joined.member_epoch
        assert answer.assignment is None
        for machine in cluster.machines:
            await machine.started()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_group_keeps_its_assignment_when_its_cluster_restarts(seed: int) -> None:
    """Its coordinator does not take a topic that is not yet described as a whole for a smaller
    one."""
    cluster = Cluster(seed, 3, "offsets.topic.num.partitions=1")
    cluster.network.quality = Quality(latency_s=0.005)
    live(cluster, restart_with_a_group)
