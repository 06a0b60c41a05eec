"""Opening record batches: a few at a time, inflated in threads, their records read in slices."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from kavka.seams import Jobs, Tasks
from kavka.server.runtime.cooperative import run_rest
from kavka.wire.steps import Steps, Wait

T = TypeVar("T")

OPENED_AT_ONCE_MAX: Final = 4
"""Batches that are open at once, all partitions together: what they inflate to is in memory
meanwhile (`inflating.INFLATED_BYTES_MAX` each)."""

RECORDS_PER_STEP: Final = 2048
"""Records opened before other work gets its turn; at 1 us each, 2 ms."""


class BatchOpener:
    """What a batch is opened with, and how many may be open."""

    def __init__(self, tasks: Tasks, jobs: Jobs) -> None:
        self.tasks = tasks
        self.jobs = jobs
        self.slots = asyncio.Semaphore(OPENED_AT_ONCE_MAX)
        """One is held while a batch is open."""

    async def finish(self, steps: Steps[T], wait: Wait) -> T:
        """Run the rest of `steps`, which have yielded `wait`."""
        async with self.slots:
            return await run_rest(self.tasks, steps, wait, jobs=self.jobs)
