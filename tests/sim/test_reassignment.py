"""Partitions move from broker to broker while they are written, and brokers die (KIP-455)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode as Code
from sim.cluster import ATTEMPT_S, TOPIC, Cluster, live
from sim.machine import Machine

PARTITIONS = 2
MOVES = 8


async def ask_controller(cluster: Cluster, name: str, **values: Any) -> Any:
    """The controller's answer, of whichever broker that is."""
    while True:
        controller = (await cluster.metadata()).controller_id
        if controller > 0:
            try:
                answer = await cluster.ask(cluster.machine(controller), name, 0, **values)
            except OSError:
                pass
            else:
                if answer.error_code != Code.NOT_CONTROLLER:
                    return answer
        await asyncio.sleep(ATTEMPT_S)


async def reassign(cluster: Cluster, index: int, target: Sequence[int] | None) -> Code:
    """Begin to reassign a partition; None cancels it."""
    partition = {"partition_index": index, "replicas": target}
    answer = await ask_controller(
        cluster,
        "AlterPartitionReassignments",
        timeout_ms=30_000,
        topics=[{"name": TOPIC, "partitions": [partition]}],
    )
    assert answer.error_code == Code.NONE
    return Code(answer.responses[0].partitions[0].error_code)


async def until_reassigned(cluster: Cluster) -> None:
    while True:
        answer = await ask_controller(
            cluster, "ListPartitionReassignments", timeout_ms=30_000, topics=None
        )
        if not answer.topics:
            return
        await asyncio.sleep(ATTEMPT_S)


def has_replica(machine: Machine, index: int) -> bool:
    return machine.fs.exists(f"/data/{TOPIC}-{index}")


async def until_placed(cluster: Cluster, targets: dict[int, list[int]]) -> None:
    """Each partition has these replicas, in sync, and no other broker has one."""
    for index, target in targets.items():
        while True:
            found = await cluster.partition(index)
            if list(found.replica_nodes) == target and set(found.isr_nodes) == set(target):
                break
            await asyncio.sleep(ATTEMPT_S)
        for number, machine in enumerate(cluster.machines, 1):
            while has_replica(machine, index) != (number in target):
                await asyncio.sleep(ATTEMPT_S)


async def moved_about(cluster: Cluster, *, deaths: bool) -> None:
    await cluster.start()
    await cluster.create([1, 2], partitions=PARTITIONS)
    until = asyncio.Event()
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(PARTITIONS)))
    chance = cluster.chance
    targets = {index: [1, 2] for index in range(PARTITIONS)}
    for _ in range(MOVES):
        for index in range(PARTITIONS):
            target = chance.sample([1, 2, 3, 4], chance.choice((1, 2, 2, 3)))
            code = await reassign(cluster, index, target)
            if code == Code.NONE:
                targets[index] = target
            else:  # a broker is down, or nothing in sync would be left
                assert deaths and code == Code.INVALID_REPLICA_ASSIGNMENT
        await asyncio.sleep(3 * chance.random())
        if chance.random() < 0.2:
            index = chance.randrange(PARTITIONS)
            await reassign(cluster, index, None)
            targets[index] = list((await cluster.partition(index)).replica_nodes)
            await until_reassigned(cluster)
            targets[index] = list((await cluster.partition(index)).replica_nodes)
        if deaths and chance.random() < 0.7:
            machine = chance.choice(cluster.machines)
            machine.kill()
            await asyncio.sleep(5 * chance.random())
            machine.launch()
            await machine.started()
        elif chance.random() < 0.5:
            await until_reassigned(cluster)
            await until_placed(cluster, targets)
    await until_reassigned(cluster)
    await until_placed(cluster, targets)
    until.set()
    await producing
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await asyncio.sleep(2)
    for index, target in targets.items():
        same = {cluster.stored_of(cluster.machine(broker_id), index) for broker_id in target}
        assert len(same) == 1, "the replicas have the same bytes"
    for machine in cluster.machines:
        machine.check_invariants()
        await machine.stop()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deaths", [False, True])
def test_nothing_is_lost_and_nothing_is_left_behind(seed: int, deaths: bool) -> None:
    cluster = live(Cluster(50 + seed, 4), lambda cluster: moved_about(cluster, deaths=deaths))
    assert len(cluster.acknowledged) > 100
