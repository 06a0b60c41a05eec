"""A broker in memory with something to compact, and processes that do it when a test lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.compaction.order import CompactionOrder
from kavka.log.compaction.run import compact, remove_cleaned
from support.memory_broker import MemoryBroker
from support.virtual import InlineWorker

BACKOFF = "log.cleaner.backoff.ms=1000"
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}


async def fill(broker: MemoryBroker, topic: str = "t", count: int = 60, *, keys: int = 5) -> None:
    for number in range(count):
        key = b"%d" % (number % keys)
        answer = await broker.produce(build([Written(key, b"value %d" % number)]), topic)
        assert answer.error_code == 0


def clean_upto(broker: MemoryBroker, topic: str = "t") -> int | None:
    return broker.replica(topic).log.compaction.clean_upto


class HeldProcesses:
    """Processes that do what a test says, instead of a broker's."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.orders: list[CompactionOrder] = []
        self.listeners: list[Callable[[Any], object]] = []
        self.results: list[asyncio.Future[Any]] = []
        self.tidied: list[str] = []
        """Directories in which was removed what a run had left."""
        self._fs = broker.fs
        self._run_process = broker.jobs.run_process
        broker.jobs.run_process = self._run  # type: ignore[method-assign]

    def _run(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_message: Callable[[Any], object],
        keep: Sequence[int] = (),
    ) -> asyncio.Future[Any]:
        if function is remove_cleaned:
            self.tidied.append(args[1])
            return self._run_process(function, *args, on_message=on_message, keep=keep)
        assert function is compact
        self.orders.append(args[1])
        self.listeners.append(on_message)
        self.results.append(asyncio.get_running_loop().create_future())
        return self.results[-1]

    def work(self) -> None:
        """Do what was ordered last."""
        outcome = compact(InlineWorker(self.listeners[-1]), self._fs, self.orders[-1])
        if not self.results[-1].done():
            self.results[-1].set_result(outcome)


async def under_way(broker: MemoryBroker) -> HeldProcesses:
    """A topic `t`, whose compaction has just begun."""
    processes = HeldProcesses(broker)
    await broker.create("t", configs=COMPACT)
    await fill(broker)
    await broker.advance(1000)
    return processes
