"""Replicas of a cluster move between log directories while their brokers restart: as in Apache
Kafka, a move goes on once the controller has asked the broker to host the replica again."""

from __future__ import annotations

import asyncio

import pytest

from kavka.wire.errors import ErrorCode as Code
from sim.cluster import ATTEMPT_S, TOPIC, Cluster, live
from sim.machine import Machine

ONE, TWO = "/data", "/more"
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
SLOWLY, AT_ONCE = f"{LIMIT}=20", f"{LIMIT}=1000000"
RECORDS = 40


def directories(machine: Machine, path: str) -> list[str]:
    """Of the replica: its log, or the copy that moves there."""
    if not machine.fs.exists(path):
        return []
    found = machine.fs.list_dir(path)
    return [name for name in found if name.startswith(f"{TOPIC}-") and not name.endswith("-delete")]


def log_of(machine: Machine, path: str) -> bytes:
    (name,) = directories(machine, path)
    return machine.fs.read_bytes(f"{path}/{name}/{0:020}.log")


async def write(cluster: Cluster, count: int) -> None:
    done = len(cluster.acknowledged) + count
    until = asyncio.Event()
    producing = asyncio.create_task(cluster.produce(until))
    while len(cluster.acknowledged) < done:
        await asyncio.sleep(ATTEMPT_S)
    until.set()
    await producing


async def begin_move(cluster: Cluster, machine: Machine) -> None:
    topics = [{"name": TOPIC, "partitions": [0]}]
    dirs = [{"path": TWO, "topics": topics}]
    answer = await cluster.ask(machine, "AlterReplicaLogDirs", 2, dirs=dirs)
    assert answer.results[0].partitions[0].error_code == Code.NONE
    while not directories(machine, TWO):
        await asyncio.sleep(ATTEMPT_S)


async def restarted(cluster: Cluster, *, kill: bool) -> None:
    await cluster.start()
    await cluster.create([1, 2])
    await write(cluster, RECORDS)
    await cluster.in_sync(1, 2)
    for machine in cluster.machines:
        await begin_move(cluster, machine)
    for machine in cluster.machines:
        if kill:
            machine.kill()
        else:
            await machine.stop()
        (copy,) = directories(machine, TWO)
        assert copy.endswith("-future"), "it is under way"
        machine.settings[machine.settings.index(SLOWLY)] = AT_ONCE
        machine.launch()
        await machine.started()
        await write(cluster, RECORDS)
        while (directories(machine, ONE), directories(machine, TWO)) != ([], [f"{TOPIC}-0"]):
            await asyncio.sleep(ATTEMPT_S)
        await cluster.in_sync(1, 2)
    assert await cluster.values() == cluster.acknowledged
    await asyncio.sleep(2)
    first, second = (log_of(machine, TWO) for machine in cluster.machines)
    assert first == second
    for machine in cluster.machines:
        machine.check_invariants()
        await machine.stop()


@pytest.mark.parametrize("kill", [False, True])
def test_a_move_goes_on_after_a_restart(kill: bool) -> None:
    cluster = Cluster(7, 2, f"log.dirs={ONE},{TWO}", SLOWLY)
    live(cluster, lambda cluster: restarted(cluster, kill=kill))
