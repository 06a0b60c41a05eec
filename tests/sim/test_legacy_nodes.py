"""Old tools ask for reassignments and elections in ZooKeeper, and controllers die meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kavka.log.memfs import MemFs
from kavka.server.runtime.tasks import LoopTasks
from kavka.zktree import paths
from kavka.zktree.api import Coordination
from sim.cluster import ATTEMPT_S, TOPIC, Cluster, live
from sim.coordination import session_opener
from sim.loop import SimClock
from sim.test_reassignment import PARTITIONS, until_placed

ROUNDS = 4


class Tool:
    """Such as `kafka-reassign-partitions.sh --zookeeper` and the like for elections."""

    def __init__(self, session: Coordination) -> None:
        self._session = session

    async def reassign(self, targets: Mapping[int, Sequence[int]]) -> None:
        """Returns when the controller has deleted the node."""
        data = paths.encode_reassignments((TOPIC, index, those) for index, those in targets.items())
        await self._session.create(paths.REASSIGN_PARTITIONS, data)
        await self.until_done(paths.REASSIGN_PARTITIONS)

    async def elect(self) -> None:
        partitions = b",".join(
            b'{"topic":"t","partition":%d}' % index for index in range(PARTITIONS)
        )
        data = b'{"version":1,"partitions":[%s]}' % partitions
        await self._session.create(paths.PREFERRED_ELECTION, data)
        await self.until_done(paths.PREFERRED_ELECTION)

    async def until_done(self, path: str) -> None:
        while await self._session.exists(path) is not None:
            await asyncio.sleep(ATTEMPT_S)


async def tool_of(cluster: Cluster) -> Tool:
    unused: Any = None
    open_session = session_opener(cluster.ensemble, cluster.process, "tool", 30.0)
    clock, tasks = SimClock(cluster.process), LoopTasks(cluster.loop)
    return Tool(await open_session(MemFs(), "", clock=clock, tasks=tasks, jobs=unused))


async def are_led(cluster: Cluster, targets: Mapping[int, Sequence[int]]) -> bool:
    """Whether preferred replicas lead."""
    leaders = {index: (await cluster.partition(index)).leader_id for index in targets}
    return leaders == {index: target[0] for index, target in targets.items()}


async def asked_by_tools(cluster: Cluster, *, deaths: bool) -> None:
    await cluster.start()
    await cluster.create([1, 2], partitions=PARTITIONS)
    tool, chance = await tool_of(cluster), cluster.chance
    until = asyncio.Event()
    producing = asyncio.gather(*(cluster.produce(until, index) for index in range(PARTITIONS)))
    for _ in range(ROUNDS):
        count = chance.choice((1, 2, 2, 3))
        targets = {index: chance.sample([1, 2, 3, 4], count) for index in range(PARTITIONS)}
        moving = asyncio.ensure_future(tool.reassign(targets))
        if deaths and chance.random() < 0.8:
            machine = chance.choice(cluster.machines)
            await asyncio.sleep(chance.random())
            machine.kill()
            await asyncio.sleep(5 * chance.random())
            machine.launch()
            await machine.started()
        await moving
        await until_placed(cluster, targets)
        if count > 1:  # the preferred replica comes back, and leads when it is asked for
            first = cluster.machine(targets[0][0])
            first.kill()
            while (await cluster.partition(0)).leader_id == targets[0][0]:
                await asyncio.sleep(ATTEMPT_S)
            first.launch()
            await first.started()
            await until_placed(cluster, targets)
        while not await are_led(cluster, targets):  # it may take a while to be in sync
            await tool.elect()
            await asyncio.sleep(ATTEMPT_S)
    until.set()
    await producing
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    for machine in cluster.machines:
        machine.check_invariants()
        await machine.stop()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("deaths", [False, True])
def test_what_tools_ask_for_is_done(seed: int, deaths: bool) -> None:
    cluster = Cluster(90 + seed, 4, "auto.leader.rebalance.enable=false")
    live(cluster, lambda cluster: asked_by_tools(cluster, deaths=deaths))
    assert len(cluster.acknowledged) > 50
