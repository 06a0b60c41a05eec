"""A death is noticed at once: by refused connections, long before a session ends."""

from __future__ import annotations

import asyncio

import pytest

from sim.cluster import ATTEMPT_S, Cluster, live
from sim.ensemble import ZOOKEEPER

SOON_S = 1.5
AT_ONCE_S = 0.1


async def started(cluster: Cluster) -> asyncio.Event:
    """Three brokers with a topic that is written all the time, until the event."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2, partitions=3)
    await cluster.in_sync(1, 2, 3)
    return asyncio.Event()


async def each_dies(cluster: Cluster) -> None:
    """Each in turn: a leader, a follower, a controller. It starts again at once."""
    until = await started(cluster)
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(3)))
    for machine in cluster.machines:
        await asyncio.sleep(2)
        broker_id = cluster.machines.index(machine) + 1
        machine.kill()
        killed_s = cluster.loop.now_s
        while True:
            answer = await cluster.metadata()
            leaders = [partition.leader_id for partition in answer.topics[0].partitions]
            if broker_id not in leaders and answer.controller_id not in (broker_id, -1):
                break
            await asyncio.sleep(ATTEMPT_S)
        before = len(cluster.acknowledged)
        while len(cluster.acknowledged) < before + 6:
            await asyncio.sleep(ATTEMPT_S / 4)
        assert cluster.loop.now_s - killed_s < SOON_S
        lives = machine.lives
        machine.launch()
        await machine.started()
        assert machine.lives == lives + 1, "its earlier registration is taken over"
        await cluster.in_sync(1, 2, 3)
        assert cluster.loop.now_s - killed_s < 2 * SOON_S
    until.set()
    await producing
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await cluster.end()


def test_others_lead_within_a_second_and_it_comes_back() -> None:
    live(Cluster(21, 3, session_timeout_s=60.0), each_dies)


async def controllers_die(cluster: Cluster) -> None:
    """One controller after the other, each of which leads a partition, too."""
    until = await started(cluster)
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(3)))
    for _ in range(4):
        await asyncio.sleep(2)
        while (controller := (await cluster.metadata()).controller_id) < 0:
            await asyncio.sleep(ATTEMPT_S)
        machine = cluster.machine(controller)
        machine.kill()
        killed_s = cluster.loop.now_s
        while controller in [
            partition.leader_id
            for partition in (await cluster.metadata(machine)).topics[0].partitions
        ]:
            await asyncio.sleep(AT_ONCE_S / 20)
        assert cluster.loop.now_s - killed_s < AT_ONCE_S
        machine.launch()
        await machine.started()
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    assert set(cluster.acknowledged) <= set(await cluster.values()), "acknowledged and lost"
    await cluster.end()


def test_others_lead_at_once_when_the_controller_dies() -> None:
    live(Cluster(14, 3, session_timeout_s=60.0), controllers_die)


async def listener_restarts(cluster: Cluster, *, cut_from_zookeeper: bool) -> None:
    """Broker by broker refuses connections for a while, though it lives: it is taken for dead, and
    joins again in the same process."""
    until = await started(cluster)
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(3)))
    for machine in cluster.machines:
        await asyncio.sleep(2)
        if cut_from_zookeeper:
            cluster.network.cut(machine.name, ZOOKEEPER)
        cluster.network.refuse(machine.name)
        await asyncio.sleep(5)
        before = len(cluster.acknowledged)
        while len(cluster.acknowledged) < before + 30:
            await asyncio.sleep(ATTEMPT_S)
        cluster.network.accept(machine.name)
        cluster.network.heal()
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    assert [machine.lives for machine in cluster.machines] == [1, 1, 1]
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await cluster.end()


@pytest.mark.parametrize("cut_from_zookeeper", [False, True])
def test_one_that_is_wrongly_taken_for_dead_does_no_harm(cut_from_zookeeper: bool) -> None:
    live(
        Cluster(22, 3, session_timeout_s=60.0),
        lambda cluster: listener_restarts(cluster, cut_from_zookeeper=cut_from_zookeeper),
    )
