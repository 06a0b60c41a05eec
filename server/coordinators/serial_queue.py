"""One thing after the other, where some of them take long: what is asked of one machine.

What takes long pauses, and others have the loop meanwhile; but the machine is nobody else's until
it is done, as in Apache Kafka, where a partition of a coordinator does one thing at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from kavka.log.journal import Ticket
from kavka.seams import Clock, Tasks
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Slices

logger = logging.getLogger(__name__)

TICK_SLICE_S: Final = 0.002
"""How long is worked before the loop gets a turn."""

HELD_MAX: Final = 100_000
"""Requests that wait while one takes long; further ones are refused with
COORDINATOR_NOT_AVAILABLE."""


class SerialQueue:
    """Those of one machine."""

    __slots__ = ("_clock", "_name", "_task", "_tasks", "work")

    def __init__(self, tasks: Tasks, clock: Clock, name: str) -> None:
        """`name` is for the log."""
        self._tasks = tasks
        self._clock = clock
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self.work: Final[deque[tuple[Slices[None], Ticket]]] = deque()
        """What takes long, the first, and what is to be done behind it; mostly there is nothing."""

    def admit(self) -> None:
        """ApiError COORDINATOR_NOT_AVAILABLE if too many requests wait already."""
        if len(self.work) >= HELD_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests are queued")

    def do(self, work: Slices[None], ticket: Ticket) -> None:
        """Do it at once, and without a task if it makes no pause; behind what takes long, if
        there is such work. A failure is raised, or, if that is later, is the ticket's."""
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
                self._begin()

    def do_next(self, work: Slices[None], ticket: Ticket) -> None:
        """The same, before all that waits, what has begun already included."""
        if self.work:
            self.work.appendleft((work, ticket))
        else:
            self.do(work, ticket)

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._tasks.spawn(self._work_off(), name=self._name)

    async def _work_off(self) -> None:
        clock = self._clock
        try:
            while self.work:
                await self._tasks.sleep(0)
                ends_s = clock.monotonic_s() + TICK_SLICE_S
                self._go_on()
                while self.work and clock.monotonic_s() < ends_s:
                    self._go_on()
        finally:
            self._task = None

    def _go_on(self) -> None:
        """The next step of what is first. By then it may be so no longer, if the step has put
        something in front of it."""
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
