"""Scenarios whose machine works on an event loop: its commands are coroutines.

    class Trees(AsyncMachine):
        async def do_create(self, command: Command) -> None:
            await self.request(f"create {path}", session.create(path))

    scenario_on_loop(scenario, rewrite, Trees)

All that comes out goes to `out`, in order: responses, when they come, and warnings that the code
logs. A request that has no response yet is said to wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from support.scenarios import Command, Scenario
from support.virtual import run_until_idle

LINE_MAX = 120
"""Characters of a logged line that are shown."""

TURNS = 60
"""Of the loop, after each command; enough for all that needs no time to pass."""


class Runner(Protocol):
    """Runs coroutines on an event loop, one after the other."""

    def run(self, work: Coroutine[Any, Any, Any], /) -> object:
        """Run it to its end."""
        ...


class AsyncMachine:
    """The base of such machines."""

    def __init__(self) -> None:
        self.out: list[str] = []

    async def start(self) -> None:
        """Before the first command."""

    async def settle(self) -> None:
        """Let everything happen that a command sets going."""
        await run_until_idle(TURNS)

    async def after(self) -> None:
        """After each command."""

    async def finish(self) -> None:
        """After the last command: what must hold at the end of each scenario."""

    async def request(
        self, name: str, answer: Awaitable[Any], text: Callable[[Any], str] = str
    ) -> None:
        """Put the response into `out` when it comes, with the request's name before it."""

        async def respond() -> None:
            try:
                result = text(await answer)
            except asyncio.CancelledError:
                result = "cancelled"
            except Exception as failure:
                result = self.failure(failure)
            self.out.append(f"{name}: {result}" if result else name)

        task = asyncio.create_task(respond(), name=name)
        await self.settle()
        if not task.done():
            self.out.append(f"{name}: waits")

    def failure(self, failure: Exception) -> str:
        """The text of a request's failure."""
        return f"{type(failure).__name__} {failure}"

    def cancel(self, name: str) -> None:
        """The caller of a request that waits goes away."""
        for task in asyncio.all_tasks():
            if task.get_name() == name:
                task.cancel()


class _Lines(logging.Handler):
    def __init__(self, out: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        line = f"log: {record.getMessage()}"
        self._out.append(line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 3]}...")


class _OnLoop:
    """A machine as scenarios call it."""

    def __init__(self, machine: AsyncMachine, runner: Runner) -> None:
        self._machine = machine
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[[Command], list[str]]:
        method = getattr(self._machine, name)

        def run(command: Command) -> list[str]:
            self._runner.run(_do(self._machine, method, command))
            out = self._machine.out[:]
            self._machine.out.clear()
            return out

        return run


async def _do(
    machine: AsyncMachine, method: Callable[[Command], Awaitable[None]], command: Command
) -> None:
    await method(command)
    await machine.settle()
    await machine.after()


def scenario_on_loop(scenario: Scenario, rewrite: bool, make: Callable[[], AsyncMachine]) -> None:
    """Check a scenario with a machine and an event loop of its own."""
    with asyncio.Runner() as runner:
        scenario_with(scenario, rewrite, make(), runner)


def scenario_with(scenario: Scenario, rewrite: bool, machine: AsyncMachine, runner: Runner) -> None:
    """Check a scenario with a machine on a given loop."""
    logger, lines = logging.getLogger("kavka"), _Lines(machine.out)
    logger.addHandler(lines)
    try:
        runner.run(machine.start())
        scenario.check(_OnLoop(machine, runner), rewrite)
        runner.run(machine.finish())
    finally:
        logger.removeHandler(lines)
