"""Clients connect to a broker as soon as it listens: it describes the whole cluster to them, or
nothing yet."""

from __future__ import annotations

import asyncio

import pytest

from sim.cluster import Cluster, live
from sim.machine import Machine
from sim.network import Quality

PARTITIONS = 30
RESTARTS = 2


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
