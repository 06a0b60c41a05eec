"""An event loop of its own, and the failures on it that are not raised anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


def collect_lost_failures() -> list[Any]:
    """Failures that are not raised anywhere: those of callbacks, for one. They come into this list,
    as the running loop's exception handler gets them."""
    lost: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: lost.append(context))
    return lost


class LoopContext:
    """A context with a loop. At its end, unless that is a failure, `finish` runs, and no failure
    may have been lost."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._lost: list[Any] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop."""
        return self._runner.run(work)

    async def begin(self) -> None:
        """At the beginning."""

    async def finish(self) -> None:
        """At the end."""

    def __enter__(self) -> Self:
        self.run(self._begin())
        return self

    async def _begin(self) -> None:
        self._lost = collect_lost_failures()
        await self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._runner:
            if kind is None:
                self.run(self.finish())
                assert not self._lost, self._lost
