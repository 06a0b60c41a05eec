"""Brokers of a cluster without `broker.id` get their ids from ZooKeeper, and keep them."""

from __future__ import annotations

import asyncio

import pytest

from kavka.log.dir_names import decode_meta
from sim.cluster import ATTEMPT_S, Cluster, live
from sim.ensemble import ZOOKEEPER
from sim.machine import DATA, Machine

BROKERS = 4


def broker_id(machine: Machine) -> int:
    assert machine.instance is not None
    return machine.instance.settings.broker_id


async def registered(cluster: Cluster) -> list[int]:
    return sorted(map(int, cluster.ensemble.tree.children("/brokers/ids")))


async def start_all(cluster: Cluster) -> None:
    """Each start meets lost connections to ZooKeeper, and perhaps the end of its process."""
    chance = cluster.chance
    for machine in cluster.machines:
        machine.launch()
    for _ in range(12):
        await asyncio.sleep(0.05 * chance.random())
        cut = chance.choice(cluster.machines)
        cluster.network.cut(cut.name, ZOOKEEPER)
        await asyncio.sleep(0.3 * chance.random())
        cluster.network.heal()
        dead = chance.choice(cluster.machines)
        if chance.random() < 0.3 and dead.is_up:
            dead.kill()
            dead.launch()
    for machine in cluster.machines:
        await machine.started()


async def join_and_return(cluster: Cluster) -> None:
    await start_all(cluster)
    ids = [broker_id(machine) for machine in cluster.machines]
    assert len(set(ids)) == BROKERS and min(ids) > 1000
    assert await registered(cluster) == sorted(ids)
    for machine, own in zip(cluster.machines, ids, strict=True):
        path = f"{DATA}/meta.properties"
        assert decode_meta(machine.fs.read_bytes(path), path).broker_id == own
    given = cluster.ensemble.tree.get("/brokers/seqid")
    assert given.data == b"" and given.stat.version >= max(ids) - 1000
    for machine in cluster.machines:
        await machine.stop()
        machine.launch()
    for machine in cluster.machines:
        await machine.started()
    assert [broker_id(machine) for machine in cluster.machines] == ids, "they keep their ids"
    assert cluster.ensemble.tree.get("/brokers/seqid").stat.version == given.stat.version
    while await registered(cluster) != sorted(ids):
        await asyncio.sleep(ATTEMPT_S)
    for machine in cluster.machines:
        await machine.stop()


@pytest.mark.parametrize("seed", range(4))
def test_each_broker_gets_an_id_of_its_own(seed: int) -> None:
    live(Cluster(70 + seed, BROKERS, "broker.id=-1"), join_and_return)
