"""What befalls a world: which faults are on at all, when and how often, is drawn from the seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sim.loop import Process

if TYPE_CHECKING:
    from sim.run import World

FAULTS_MAX = 12


class Faults:
    """The faults of one world."""

    def __init__(
        self, world: World, clients: Sequence[Process], members: Sequence[Process]
    ) -> None:
        """`clients` may be paused, and their paths to the broker cut; above all `members` of
        groups, whom others replace then."""
        self._world = world
        self._clients = clients
        self._members = members
        chance = world.chance
        self._mean_s = chance.choice((0.05, 1.0, 10.0))
        kinds: list[Callable[[], Awaitable[None]]] = [
            *(self._kill, self._restart, self._cut_power),
            *(self._reset, self._cut_path, self._pause, self._pause_client),
        ]
        self._kinds = [kind for kind in kinds if chance.random() < 0.5]

    async def run(self) -> None:
        """Let them happen, one after the other."""
        chance = self._world.chance
        for _ in range(chance.randrange(FAULTS_MAX) if self._kinds else 0):
            await asyncio.sleep(self._mean_s * 2 * chance.random())
            await chance.choice(self._kinds)()

    async def heal(self) -> None:
        """All is well again."""
        self._world.network.heal()
        assert self._world.machine.is_up

    async def _kill(self) -> None:
        self._world.machine.kill()
        await self._start_again()

    async def _restart(self) -> None:
        await self._world.machine.stop()
        await self._start_again()

    async def _cut_power(self) -> None:
        world = self._world
        world.history.may_lose = world.history.may_lose or not world.is_durable
        world.machine.cut_power()
        await asyncio.sleep(world.chance.choice((0.1, 5.0, 40.0)))
        world.network.light(world.machine.name)
        await self._start_again()

    async def _start_again(self) -> None:
        machine = self._world.machine
        await asyncio.sleep(self._world.chance.choice((0.0, 0.1, 5.0)))
        machine.launch()
        await machine.started()

    async def _reset(self) -> None:
        self._world.network.reset_one()

    async def _cut_path(self) -> None:
        world = self._world
        pair = [self._some_client().name, world.machine.name]
        world.chance.shuffle(pair)
        world.network.cut(*pair)
        await asyncio.sleep(world.chance.choice((0.5, 5.0, 40.0)))
        world.network.heal()

    async def _pause(self) -> None:
        process = self._world.machine.process
        assert process is not None
        await self._pause_process(process)

    async def _pause_client(self) -> None:
        await self._pause_process(self._some_client())

    def _some_client(self) -> Process:
        chance = self._world.chance
        members = self._members if chance.random() < 0.7 else ()
        return chance.choice(members or self._clients)

    async def _pause_process(self, process: Process) -> None:
        world = self._world
        process.pause()
        world.trace.add(process.name, "paused")
        await asyncio.sleep(world.chance.choice((0.5, 5.0, 40.0)))
        process.resume()
        world.trace.add(process.name, "resumed")
