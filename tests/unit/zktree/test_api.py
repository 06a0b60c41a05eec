"""The semantics of the interface, over each implementation of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from kavka.log.memfs import MemFs
from kavka.server.coordination.embedded import open_embedded
from kavka.zktree.api import Coordination
from support.coordination_scenarios import SCENARIOS, Scenario
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks

Opener = Callable[[], AbstractAsyncContextManager[Coordination]]


@asynccontextmanager
async def embedded() -> AsyncIterator[Coordination]:
    clock = VirtualClock()
    fs = MemFs()
    fs.make_dir("/data")
    session = await open_embedded(
        fs, "/data", clock=clock, tasks=VirtualTasks(clock), jobs=DeferredJobs()
    )
    yield session
    await session.close()


@pytest.mark.parametrize("opener", [embedded])
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_semantics(scenario: Scenario, opener: Opener) -> None:
    async def run() -> None:
        async with opener() as session:
            await session.create("/t")
            await scenario(session)

    asyncio.run(run())
