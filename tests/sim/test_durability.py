"""With kavka.durability=fsync a record is acknowledged once each in-sync replica has flushed it."""

from __future__ import annotations

import asyncio

import pytest

from sim.cluster import ATTEMPT_S, TOPIC, Cluster, live
from sim.test_reassignment import reassign


async def until_found(cluster: Cluster, acknowledged: list[bytes]) -> None:
    """A new leader shows them once it knows that its followers have them (KIP-207)."""
    found: set[bytes] = set()
    for _ in range(50):
        found = set(await cluster.values())
        if found >= set(acknowledged):
            return
        await asyncio.sleep(ATTEMPT_S)
    raise AssertionError(f"acknowledged and lost: {set(acknowledged) - found}")


async def power_cut_of_all(cluster: Cluster) -> None:
    """All lose their power at once; the leader does not come back before the others have led."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    for _ in range(3):
        await asyncio.sleep(1 + cluster.chance.random())
        leader = cluster.machine((await cluster.partition()).leader_id)
        for machine in cluster.machines:  # its address refuses connections: clients do not hang
            machine.kill()
            machine.fs.crash(cluster.chance)
        others = [each for each in cluster.machines if each is not leader]
        for machine in others:
            machine.launch()
        for machine in others:
            await machine.started()
        acknowledged = list(cluster.acknowledged)
        while (await cluster.partition()).leader_id == int(leader.name[-1]):
            await asyncio.sleep(ATTEMPT_S)
        await until_found(cluster, acknowledged)
        leader.launch()
        await leader.started()
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    assert set(cluster.acknowledged) <= set(await cluster.values())
    await cluster.end()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_is_on_the_disks_of_followers_too(seed: int) -> None:
    cluster = live(Cluster(60 + seed, 3, "kavka.durability=fsync"), power_cut_of_all)
    assert len(cluster.acknowledged) > 20


async def back_at_once(cluster: Cluster) -> None:
    """The controller, which leads, loses its power and its last records, and is back before any
    other broker has noticed. It is no leader any more then: it was away since it was elected."""
    await cluster.start()
    while (controller := (await cluster.metadata()).controller_id) < 0:
        await asyncio.sleep(ATTEMPT_S)
    others = [number for number in (1, 2, 3) if number != controller]
    await cluster.create([controller, *others], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    await asyncio.sleep(3)
    machine = cluster.machine(controller)
    acknowledged = list(cluster.acknowledged)
    machine.kill()
    machine.fs.crash(cluster.chance)
    machine.launch()
    await machine.started()
    while (await cluster.partition()).leader_id == controller:
        await asyncio.sleep(ATTEMPT_S)
    await cluster.in_sync(1, 2, 3)
    await until_found(cluster, acknowledged)
    until.set()
    await producing
    assert set(cluster.acknowledged) <= set(await cluster.values())
    await cluster.end()


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_of_the_controller_loses_nothing_that_others_have(seed: int) -> None:
    cluster = live(Cluster(900 + seed, 3), back_at_once)
    assert len(cluster.acknowledged) > 20


async def begins_late(cluster: Cluster) -> None:
    """A new replica has to begin where the leader's log does, behind deleted records."""
    await cluster.start()
    await cluster.create([1, 2])
    await cluster.in_sync(1, 2)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    await asyncio.sleep(2)
    leader = cluster.machine((await cluster.partition()).leader_id)
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}]}]
    answer = await cluster.ask(leader, "DeleteRecords", 2, topics=topics, timeout_ms=5000)
    assert answer.topics[0].partitions[0].low_watermark > 0
    await reassign(cluster, 0, [1, 2, 3])
    await asyncio.wait_for(cluster.in_sync(1, 2, 3), 60)
    before = len(cluster.acknowledged)
    while len(cluster.acknowledged) < before + 10:
        await asyncio.sleep(ATTEMPT_S)
    until.set()
    await producing
    for machine in cluster.machines:
        machine.check_invariants()
        await machine.stop()


def test_a_replica_that_begins_behind_deleted_records_joins() -> None:
    live(Cluster(70, 3, "kavka.durability=fsync"), begins_late)
