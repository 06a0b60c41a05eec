"""The faults of a world: two sequences of them at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from kavka.log.memfs import Fault as DiskFault
from sim.ensemble import ZOOKEEPER
from sim.loop import Process
from sim.machine import Machine
from sim.plan import Fault

if TYPE_CHECKING:
    from sim.world import World


class Faults:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kinds: dict[str, Callable[[Fault], Awaitable[None]]] = {
            "kill": self._kill,
            "restart": self._restart,
            "cut power": self._cut_power,
            "reset": self._reset,
            "cut path": self._cut_path,
            "pause": self._pause,
            "pause client": self._pause_client,
            "disk error": self._break_disk,
            "disk full": self._fill_disk,
            "clock jump": self._jump,
            "disk stuck": self._stick_disk,
            "cut from zookeeper": self._cut_from_zookeeper,
            "reset from zookeeper": self._reset_from_zookeeper,
        }

    def machine(self, fault: Fault) -> Machine:
        """Whom a fault is about."""
        return self._world.machine

    async def run(self) -> None:
        """Let them happen; all is well again at the end."""
        plan = self._world.plan
        await asyncio.gather(self._run(plan.faults), self._run(plan.meanwhile))
        self._world.network.heal()

    async def _run(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            await asyncio.sleep(fault.after_s)
            await self.happen(fault)

    async def happen(self, fault: Fault) -> None:
        """Let one happen, and be over."""
        await self._kinds[fault.kind](fault)

    async def _kill(self, fault: Fault) -> None:
        machine = self.machine(fault)
        machine.kill()
        await self._start_again(machine, fault)

    async def _restart(self, fault: Fault) -> None:
        machine = self.machine(fault)
        await machine.stop()
        await self._start_again(machine, fault)

    async def _cut_power(self, fault: Fault) -> None:
        world, machine = self._world, self.machine(fault)
        if not world.plan.is_durable:
            world.history.loses()
        machine.cut_power()
        await asyncio.sleep(fault.lasts_s)
        world.network.light(machine.name)
        await self._start_again(machine, fault)

    async def _start_again(self, machine: Machine, fault: Fault) -> None:
        await asyncio.sleep(fault.down_s)
        if fault.rots:
            machine.flip_bit(fault.rots)
        machine.launch()
        await machine.started()

    async def _break_disk(self, fault: Fault) -> None:
        """One operation fails."""
        machine = self.machine(fault)
        machine.fs.faults.append(DiskFault(fault.operation, fault.files))
        await self._live_with(machine, fault)
        machine.fs.faults.clear()
        await self._mend(machine, fault)

    async def _fill_disk(self, fault: Fault) -> None:
        machine = self.machine(fault)
        machine.fs.capacity_bytes = machine.fs.used_bytes + 500
        await self._live_with(machine, fault)
        machine.fs.capacity_bytes = None
        await self._mend(machine, fault)

    async def _stick_disk(self, fault: Fault) -> None:
        machine = self.machine(fault)
        until_s = self._world.loop.now_s + fault.lasts_s
        machine.stuck_until_s = max(machine.stuck_until_s, until_s)
        await self._live_with(machine, fault)

    async def _live_with(self, machine: Machine, fault: Fault) -> None:
        self._world.trace.add(machine.name, f"{fault.kind} begins")
        await asyncio.sleep(fault.lasts_s)
        self._world.trace.add(machine.name, f"{fault.kind} ends")

    async def _mend(self, machine: Machine, fault: Fault) -> None:
        """A broker whose only disk has failed has stopped: it is started again."""
        await machine.end_of_failure()
        if not machine.is_up:
            await self._start_again(machine, fault)

    async def _reset(self, fault: Fault) -> None:
        self._world.network.reset_one()

    async def _cut_path(self, fault: Fault) -> None:
        world = self._world
        path = (fault.client, self.machine(fault).name)
        world.network.cut(*(path if fault.is_from_client else reversed(path)))
        await asyncio.sleep(fault.lasts_s)
        world.network.heal()

    async def _pause(self, fault: Fault) -> None:
        await self._pause_process(self.machine(fault).process, fault)

    async def _pause_client(self, fault: Fault) -> None:
        await self._pause_process(self._world.clients.get(fault.client), fault)

    async def _pause_process(self, process: Process | None, fault: Fault) -> None:
        if process is None:
            return  # it is down
        process.pause()
        self._world.trace.add(process.name, "paused")
        await asyncio.sleep(fault.lasts_s)
        process.resume()
        self._world.trace.add(process.name, "resumed")

    async def _jump(self, fault: Fault) -> None:
        machine, client = self.machine(fault), self._world.clients.get(fault.client)
        self._world.trace.add(fault.client, f"clock jumps by {fault.by_ms} ms")
        if fault.client == machine.name:
            machine.set_clock(fault.by_ms)
        elif client is not None:
            client.offset_ms += fault.by_ms

    async def _cut_from_zookeeper(self, fault: Fault) -> None:
        machine, network = self.machine(fault), self._world.network
        broker, until_s = machine.name, self._world.loop.now_s + fault.lasts_s
        machine.cut_off_until_s = max(machine.cut_off_until_s, until_s)
        if fault.is_from_client or fault.is_both_ways:
            network.cut(broker, ZOOKEEPER)
        if not fault.is_from_client or fault.is_both_ways:
            network.cut(ZOOKEEPER, broker)
        await asyncio.sleep(fault.lasts_s)
        network.heal()

    async def _reset_from_zookeeper(self, fault: Fault) -> None:
        ensemble = self._world.ensemble
        assert ensemble is not None
        ensemble.reset_all()
