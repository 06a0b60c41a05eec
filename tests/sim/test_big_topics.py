"""A topic that the controller has to describe in several requests: clients see all of it or
nothing."""

from __future__ import annotations

import asyncio

import pytest

from kavka.server.controller.events import CHUNK_PARTITIONS
from kavka.wire.errors import ErrorCode as Code
from sim.cluster import Cluster, live
from sim.machine import Machine
from sim.network import Quality

PARTITIONS = 2 * CHUNK_PARTITIONS + 10


async def watch(cluster: Cluster, machine: Machine, seen: set[int], until: int) -> None:
    """The numbers of partitions that a broker answers with, 0 for no topic."""
    while until not in seen:
        answer = await cluster.ask(
            machine,
            "Metadata",
            12,
            topics=[{"name": "t", "topic_id": None}],
            allow_auto_topic_creation=False,
        )
        (topic,) = answer.topics
        assert topic.error_code in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION)
        seen.add(len(topic.partitions))


async def grow(cluster: Cluster) -> None:
    topics = [{"name": "t", "count": 2 * PARTITIONS, "assignments": None}]
    for machine in cluster.machines:
        answer = await cluster.ask(
            machine, "CreatePartitions", 3, topics=topics, timeout_ms=60_000, validate_only=False
        )
        if answer.results[0].error_code == Code.NONE:
            return
        assert answer.results[0].error_code == Code.NOT_CONTROLLER
    raise AssertionError("there is no controller")


async def create_and_grow(cluster: Cluster) -> None:
    await cluster.start()
    for change, before, after in (
        (cluster.create([1, 2], partitions=PARTITIONS), 0, PARTITIONS),
        (grow(cluster), PARTITIONS, 2 * PARTITIONS),
    ):
        seen: list[set[int]] = [{before} for _ in cluster.machines]
        watching = [
            watch(cluster, machine, numbers, after)
            for machine, numbers in zip(cluster.machines, seen, strict=True)
        ]
        await asyncio.gather(change, *watching)
        assert seen == [{before, after}] * len(seen)


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_created_and_grows_at_once(seed: int) -> None:
    cluster = Cluster(seed, 2)
    cluster.network.quality = Quality(latency_s=0.0005)
    live(cluster, create_and_grow)
