"""Work that goes on while something happens: so that what is killed is in the middle of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def meanwhile(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do a piece of work again and again until the body ends. What the work raises."""
    is_over = asyncio.Event()

    async def go_on() -> None:
        while not is_over.is_set():
            await work()

    going_on = asyncio.create_task(go_on())
    try:
        yield
    finally:
        is_over.set()
        await going_on
