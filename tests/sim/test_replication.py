"""Brokers of a cluster replicate: nothing that was acknowledged is lost with the leader.

The replicas' files are compared byte by byte at the end, when all are in sync.
"""

from __future__ import annotations

import asyncio

import pytest

from kavka.zktree import paths
from sim.cluster import ATTEMPT_S, SESSION_S, TOPIC, Cluster, live
from sim.ensemble import ZOOKEEPER
from sim.machine import Machine


async def leader_is_killed(cluster: Cluster) -> None:
    """Records are written all the time; the leader dies twice."""
    await cluster.start()
    everyone = [int(machine.name[-1]) for machine in cluster.machines]
    await cluster.create(everyone, min_isr=min(2, len(everyone) - 1))
    await cluster.in_sync(*everyone)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    for _ in range(2):
        await asyncio.sleep(2 + cluster.chance.random())
        leader = cluster.machine((await cluster.partition()).leader_id)
        before = len(cluster.acknowledged)
        leader.kill()
        while len(cluster.acknowledged) < before + 20:
            await asyncio.sleep(ATTEMPT_S)
        await asyncio.sleep(SESSION_S)
        leader.launch()
        await leader.started()
        await cluster.in_sync(*everyone)
    until.set()
    await producing
    await cluster.in_sync(*everyone)
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    firsts = list(dict.fromkeys(values))
    assert firsts == sorted(firsts, key=int), "in the order in which they were written"
    await cluster.end()


@pytest.mark.parametrize("brokers", [2, 3])
def test_nothing_acknowledged_is_lost_when_the_leader_dies(brokers: int) -> None:
    cluster = live(Cluster(brokers, brokers), leader_is_killed)
    assert len(cluster.acknowledged) > 100
    again = live(Cluster(brokers, brokers), leader_is_killed)
    assert cluster.trace.digest() == again.trace.digest()


async def all_restart(cluster: Cluster) -> None:
    """One broker after the other stops and starts again, the controller among them."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2, partitions=3)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(3)))
    for machine in cluster.machines:
        await asyncio.sleep(2)
        await machine.stop()
        assert left_before_it_stopped(cluster, machine)
        await asyncio.sleep(2)
        machine.launch()
        await machine.started()
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await cluster.end()


def left_before_it_stopped(cluster: Cluster, machine: Machine) -> bool:
    """Whether a broker was out of all ISRs, and led nothing, before its registration ended."""
    tree, broker_id = cluster.ensemble.tree, int(machine.name[-1])
    ids = tree.exists(paths.BROKER_IDS)
    assert ids is not None
    states = [tree.get(paths.partition_state(TOPIC, index)) for index in range(cluster.partitions)]
    return all(
        broker_id not in paths.decode_partition_state(node.data).isr and node.stat.mzxid < ids.pzxid
        for node in states
    )


def test_a_broker_that_stops_has_others_lead_first() -> None:
    cluster = live(Cluster(11, 3), all_restart)
    assert len(cluster.acknowledged) > 500


async def everything_happens(cluster: Cluster) -> None:
    """Brokers are killed, stopped and paused, and cut off from each other or from ZooKeeper, one
    at a time, while records are written."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.gather(cluster.produce(until), cluster.write_carelessly(until))
    for _ in range(6):
        await asyncio.sleep(3 * cluster.chance.random())
        machine = cluster.chance.choice(cluster.machines)
        if cluster.chance.random() < 0.5:
            machine = cluster.machine((await cluster.partition()).leader_id)
        await fault(cluster, machine)
    cluster.network.heal()
    before = len(cluster.acknowledged)
    await cluster.in_sync(1, 2, 3)
    while len(cluster.acknowledged) < before + 20:
        await asyncio.sleep(ATTEMPT_S)
    until.set()
    await producing
    await cluster.in_sync(1, 2, 3)
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await cluster.end()


async def fault(cluster: Cluster, machine: Machine) -> None:
    kind = cluster.chance.choice(("kill", "stop", "pause", "cut", "isolate", "reset"))
    cluster.trace.add(machine.name, f"fault: {kind}")
    others = [each.name for each in cluster.machines if each is not machine]
    lasts_s = cluster.chance.choice((0.5, 3.0, SESSION_S + 3, 40.0))
    if kind in ("kill", "stop"):
        await machine.end_of_failure()
        await machine.started()
        if kind == "kill":
            machine.kill()
        else:
            await machine.stop()
        await asyncio.sleep(lasts_s)
        machine.launch()
        await machine.started()
    elif kind == "pause":
        process = machine.process
        if process is not None:
            process.pause()
            await asyncio.sleep(lasts_s)
            process.resume()
    elif kind == "reset":
        cluster.network.reset_one()
    else:
        cut_off = [cluster.chance.choice(others)] if kind == "cut" else [*others, ZOOKEEPER]
        for other in cut_off:
            cluster.network.cut(machine.name, other)
        await asyncio.sleep(lasts_s)
        cluster.network.heal()


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost_whatever_happens(seed: int) -> None:
    live(Cluster(seed, 3), everything_happens)


async def records_are_deleted(cluster: Cluster) -> None:
    """What DeleteRecords has answered holds at each of the next leaders."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    deleted = 0
    for _ in range(6):
        await asyncio.sleep(2)
        leader = cluster.machine((await cluster.partition()).leader_id)
        partitions = [{"partition_index": 0, "offset": -1}]
        topics = [{"name": TOPIC, "partitions": partitions}]
        started_s = cluster.loop.now_s
        answer = await cluster.ask(leader, "DeleteRecords", 2, topics=topics, timeout_ms=5000)
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == 0 and partition.low_watermark > deleted
        assert cluster.loop.now_s - started_s < 0.4, "followers do not wait for the next record"
        deleted = partition.low_watermark
        leader.kill()
        while (found := await cluster.partition()).leader_id == int(leader.name[-1]):
            await asyncio.sleep(ATTEMPT_S)
        partitions = [{"partition_index": 0, "timestamp": -2, "current_leader_epoch": -1}]
        topics = [{"name": TOPIC, "partitions": partitions}]
        machine = cluster.machine(found.leader_id)
        answer = await cluster.ask(
            machine, "ListOffsets", 6, replica_id=-1, isolation_level=0, topics=topics
        )
        assert answer.topics[0].partitions[0].offset == deleted
        leader.launch()
        await leader.started()
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    for machine in cluster.machines:
        machine.check_invariants()
        await machine.stop()


def test_deleted_records_do_not_come_back_with_another_leader() -> None:
    live(Cluster(31, 3), records_are_deleted)
