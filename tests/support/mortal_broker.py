"""A broker in memory that dies in the middle of what it does to its disk, at the n-th step.

`fs.dies_after` says at which (see `MemFs`). From that moment on nothing leaves the broker: its
connections end with the step, half of which may be done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kavka.compat_tests.raw.codec.wire_client import plain
from kavka.log.memfs import Died, MemFs
from support.loop_context import collect_lost_failures
from support.memory_broker import MemoryBroker
from support.memory_network import Closed
from support.transactional import Answer, Request, Script, check

T = TypeVar("T")

RETRY_MS = 20
"""How long a client waits before it asks again."""
RETRIES_MAX = 150
TURNS_MS_MAX = 2_000
"""How much time an answer may take."""


class MortalFs(MemFs):
    """Reports the death at once, before anything else can happen."""

    on_death: Callable[[], None] | None = None

    def check(self, op: str, path: str) -> None:
        try:
            super().check(op, path)
        except Died:
            if self.on_death is not None:
                self.on_death()
            raise


class MortalBroker(MemoryBroker):
    """One that may be set to die at a step."""

    def __init__(self, *overrides: str) -> None:
        fs = MortalFs()
        super().__init__(*overrides, fs=fs)
        fs.on_death = self._dies
        self.is_dead = False

    def _dies(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.network.die()
            self.tasks.silence()

    async def bury(self, chance: random.Random | None = None, *, power: bool = False) -> None:
        """The end of what has died. `power`: it was a power cut, with `chance` as `MemFs.crash`
        has it."""
        self.tasks.failures[:] = [
            failure for failure in self.tasks.failures if not isinstance(failure, Died | Closed)
        ]
        await self.die()
        if power:
            self.fs.crash(chance)
        self.is_dead = False

    async def play(self, script: Script, revive: Callable[[], Any] | None = None) -> bool:
        """Ask all that a script asks, as a client that asks again. False: the broker has died
        meanwhile. With `revive`, a coroutine function that starts it again, the client goes on
        where it was."""
        request = next(script, None)
        while request is not None:
            answer = await self._answer(request)
            if answer is None and revive is None:
                return False
            if answer is None:
                assert revive is not None
                await revive()
                continue
            try:
                request = script.send(answer)
            except StopIteration:
                request = None
        return True

    async def _answer(self, request: Request) -> Answer | None:
        """None: the broker has died."""
        for _ in range(RETRIES_MAX):
            if self.is_dead:
                return None
            future = self.client.send(request.name, request.version, **request.values)
            for _ in range(TURNS_MS_MAX):
                await self.advance(0 if future.done() else 1)
                if future.done() or self.is_dead:
                    break
            if not future.done() or future.exception() is not None:
                assert self.is_dead, f"{request.name}: {future}"
                return None
            answer: Answer = plain(future.result())
            if check(request.name, answer):
                return answer
            await self.advance(RETRY_MS)
        raise AssertionError(f"{request} is refused forever")


def run_mortal(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own. A failure that nothing raises fails it, unless it is a death."""

    async def observed() -> T:
        lost = collect_lost_failures()
        found = await work
        assert all(isinstance(context.get("exception"), Died) for context in lost), lost
        return found

    return asyncio.run(observed())
