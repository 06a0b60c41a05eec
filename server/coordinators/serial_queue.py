"""Runs the operations on one state machine one after the other, although some of them take long.

A long operation yields to the event loop in between, but no other operation on the same machine
runs until it is done; as in Apache Kafka, where each coordinator partition runs one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from kavka.log.journal import Ticket
from kavka.seams import Clock, Tasks
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

TICK_SLICE_S: Final = 0.002
"""How long operations run before a yield to the event loop."""

QUEUED_MAX: Final = 100_000
"""Requests queued behind a long one; further ones are rejected with COORDINATOR_NOT_AVAILABLE."""


class SerialQueue:
    """The queue of one state machine."""

    __slots__ = ("_clock", "_name", "_task", "_tasks", "work")

    def __init__(self, tasks: Tasks, clock: Clock, name: str) -> None:
        """`name` is for the log."""
        self._tasks = tasks
        self._clock = clock
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self.work: Final[deque[tuple[Steps[None], Ticket]]] = deque()
        """The running operation, first, and the queued ones behind it; mostly empty."""

    def admit(self) -> None:
        """ApiError COORDINATOR_NOT_AVAILABLE if the queue is full."""
        if len(self.work) >= QUEUED_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests are queued")

    def run(self, work: Steps[None], ticket: Ticket) -> None:
        """Run an operation now, without a task if it never yields; or enqueue it behind a long one.
        A failure is raised, or set on the ticket if the operation did not finish at once."""
        entry = work, ticket
        self.work.append(entry)
        if self.work[0] is not entry:
            return
        try:
            next(work)
        except BaseException as end:
            self.work.remove(entry)
            if not isinstance(end, StopIteration):
                raise
        finally:
            if self.work:
                self._start_task()

    def run_next(self, work: Steps[None], ticket: Ticket) -> None:
        """Run an operation before all others, even before one that is running."""
        if self.work:
            self.work.appendleft((work, ticket))
        else:
            self.run(work, ticket)

    def _start_task(self) -> None:
        if self._task is None:
            self._task = self._tasks.spawn(self._drain(), name=self._name)

    async def _drain(self) -> None:
        clock = self._clock
        try:
            while self.work:
                await self._tasks.sleep(0)
                ends_s = clock.monotonic_s() + TICK_SLICE_S
                self._run_step()
                while self.work and clock.monotonic_s() < ends_s:
                    self._run_step()
        finally:
            self._task = None

    def _run_step(self) -> None:
        """Run one step of the first operation. The step may put another one in front of it."""
        entry = work, ticket = self.work[0]
        try:
            next(work)
        except StopIteration:
            self.work.remove(entry)
        except ApiError as refusal:
            self.work.remove(entry)
            ticket.settle(refusal)
        except Exception:
            self.work.remove(entry)
            logger.exception("%s failed", self._name)
            ticket.settle(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
