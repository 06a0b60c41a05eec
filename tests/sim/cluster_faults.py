"""The faults of a cluster. Two sequences of them happen at the same time, to any brokers; one that
is stopped or paused already is left alone by the other sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kavka.zktree import paths
from kavka.zktree.api import NoNode
from sim.ensemble import ZOOKEEPER
from sim.faults import Faults
from sim.machine import Machine
from sim.plan import TOPIC, Fault

if TYPE_CHECKING:
    from sim.cluster_world import ClusterWorld

ALL: Final = ("kill all", "cut power of all")
OF_ONE: Final = ("kill", "restart", "pause", "cut power", "disk stuck", "overrule")
"""Those that have a broker to themselves."""


class ClusterFaults(Faults):
    """The faults of one cluster."""

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._cluster = world
        self._taken: dict[str, None] = {}
        """The brokers that something happens to now."""
        self._free: list[Machine] = []
        """Those that the fault that begins has to itself."""
        self._kinds |= {
            "kill all": self._kill_all,
            "cut power of all": self._kill_all,
            "cut brokers": self._cut_brokers,
            "isolate": self._isolate,
            "refuse": self._refuse,
            "expire session": self._expire,
            "overrule": self._overrule,
            "zookeeper restarts": self._restart_zookeeper,
        }

    async def happen(self, fault: Fault) -> None:
        world = self._cluster
        fault = replace(fault, broker=self._broker(fault), role="")
        machine = self.machine(fault)
        world.trace.add(machine.name, f"fault: {fault.kind}")
        if fault.kind in ALL:
            taken = [each for each in world.machines if each.name not in self._taken]
        elif fault.kind in OF_ONE:
            taken = [machine]
        else:
            taken = []
        if any(each.name in self._taken for each in taken):
            return
        self._taken |= dict.fromkeys(each.name for each in taken)
        self._free = taken
        try:
            await super().happen(fault)
        finally:
            for freed in taken:
                del self._taken[freed.name]

    def machine(self, fault: Fault) -> Machine:
        return self._cluster.machines[fault.broker - 1]

    def _broker(self, fault: Fault) -> int:
        """The id of the broker that a fault is about."""
        tree = self._cluster.service.tree
        try:
            if fault.role == "controller":
                return paths.decode_controller(tree.get(paths.CONTROLLER).data)
            if fault.role == "leader":
                state = paths.decode_partition_state(tree.get(paths.partition_state(TOPIC, 0)).data)
                return fault.broker if state.leader < 0 else state.leader
        except NoNode:
            pass
        return fault.broker

    # -- brokers --------------------------------------------------------------------------

    async def _kill_all(self, fault: Fault) -> None:
        world = self._cluster
        machines = [each for each in self._free if each.is_up]
        for machine in machines:
            machine.kill()
            if fault.kind == "cut power of all":
                machine.fs.crash(world.chance)
        await asyncio.sleep(fault.down_s)
        for machine in machines:
            machine.launch()
        for machine in machines:
            await machine.started()
            await asyncio.sleep(fault.lasts_s / 10)

    async def _cut_brokers(self, fault: Fault) -> None:
        name, other_name = self.machine(fault).name, self._cluster.machines[fault.other - 1].name
        ways = [(name, other_name)] if fault.is_from_client else [(other_name, name)]
        await self._cut(
            {*ways, (name, other_name), (other_name, name)} if fault.is_both_ways else ways, fault
        )

    async def _isolate(self, fault: Fault) -> None:
        """From the other brokers and from ZooKeeper, but not from clients."""
        name = self.machine(fault).name
        others = [each.name for each in self._cluster.machines if each.name != name] + [ZOOKEEPER]
        ways = [(name, other) for other in others]
        if fault.is_both_ways:
            ways += [(other, name) for other in others]
        await self._cut(ways, fault)

    async def _refuse(self, fault: Fault) -> None:
        """It counts as dead, if that is how others notice it, though its session goes on."""
        name = self.machine(fault).name
        self._cluster.network.refuse(name)
        await asyncio.sleep(fault.lasts_s)
        self._cluster.network.accept(name)

    async def _cut(self, ways: Collection[tuple[str, str]], fault: Fault) -> None:
        network = self._cluster.network
        for source, target in sorted(ways):
            network.cut(source, target)
        await asyncio.sleep(fault.lasts_s)
        network.mend(ways)

    async def _cut_path(self, fault: Fault) -> None:
        way = (fault.client, self.machine(fault).name)
        await self._cut([way if fault.is_from_client else way[::-1]], fault)

    async def _cut_from_zookeeper(self, fault: Fault) -> None:
        way = (self.machine(fault).name, ZOOKEEPER)
        back = way[::-1]
        if fault.is_both_ways:
            await self._cut([way, back], fault)
        else:
            await self._cut([way if fault.is_from_client else back], fault)

    # -- ZooKeeper ------------------------------------------------------------------------

    async def _expire(self, fault: Fault) -> None:
        service = self._cluster.service
        node = service.tree.exists(paths.broker(fault.broker))
        if node is not None and node.ephemeral_owner in service.sessions:
            service.expire(service.sessions[node.ephemeral_owner])

    async def _overrule(self, fault: Fault) -> None:
        """The controller is replaced and does not hear of it, as ZooKeeper does not reach it; but
        it hears that another broker has died, and would tell all others so."""
        world, dying = self._cluster, self.machine(fault)
        number = self._broker(replace(fault, role="controller"))
        ways = [(world.machines[number - 1].name, ZOOKEEPER)]
        ways += [way[::-1] for way in ways]
        for source, target in ways:
            world.network.cut(source, target)
        await self._expire(replace(fault, broker=number))
        await asyncio.sleep(fault.lasts_s / 10)
        is_killed = dying.is_up and number != fault.broker
        if is_killed:
            dying.kill()
        await asyncio.sleep(fault.lasts_s / 5)
        world.network.mend(ways)
        if is_killed:
            dying.launch()
            await dying.started()

    async def _restart_zookeeper(self, fault: Fault) -> None:
        service = self._cluster.service
        if self._cluster.is_zookeeper_down:
            return
        self._cluster.is_zookeeper_down = True
        service.stop()
        await asyncio.sleep(fault.lasts_s)
        service.start()
        self._cluster.is_zookeeper_down = False
