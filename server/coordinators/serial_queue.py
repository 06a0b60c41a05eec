"""Runs work on one state machine piece after piece, in order, although some of it takes long.

Long work yields to the event loop in between, but nothing behind it runs until it is done; as in
Apache Kafka, where each coordinator partition runs one operation at a time.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from kavka.log.journal import ReplyFuture
from kavka.seams import Clock, Tasks
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

TICK_SLICE_S: Final = 0.002
"""How long work runs before a yield to the event loop."""

QUEUED_MAX: Final = 100_000
"""Requests queued behind a long one; further ones are rejected with COORDINATOR_NOT_AVAILABLE."""


class SerialQueue:
    """A queue of work that only pauses; TypeError if it waits for anything else.

    Work fails by itself: what is behind it still runs. A future gets the error if there is one.
    """

    __slots__ = ("_clock", "_is_scheduled", "_name", "_tasks", "work")

    def __init__(self, tasks: Tasks, clock: Clock, name: str) -> None:
        """`name` is for the log."""
        self._tasks = tasks
        self._clock = clock
        self._name = name
        self._is_scheduled = False
        self.work: Final[deque[tuple[Steps[None], ReplyFuture | None]]] = deque()
        """The running work, first, and what is queued behind it; mostly empty."""

    def admit(self) -> None:
        """ApiError COORDINATOR_NOT_AVAILABLE if the queue is full."""
        if len(self.work) >= QUEUED_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests are queued")

    def run(self, work: Steps[None], future: ReplyFuture) -> None:
        """Run work now, up to its first pause; or enqueue it behind what is running. A failure is
        raised, or set on the future if the work was not done at once."""
        queue, entry = self.work, (work, future)
        queue.append(entry)
        if len(queue) > 1:
            return
        try:
            if (wait := next(work)) is not None:
                raise _not_a_pause(wait)
        except StopIteration:
            queue.remove(entry)
        except BaseException:
            queue.remove(entry)
            raise
        finally:
            if queue:
                self._schedule()

    def run_next(self, work: Steps[None], future: ReplyFuture) -> None:
        """Run work before all other, even before that which is running."""
        if self.work:
            self.work.appendleft((work, future))
        else:
            self.run(work, future)

    def enqueue(self, work: Steps[None]) -> None:
        """Run work behind all other, from the next iteration of the event loop on."""
        self.work.append((work, None))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._tasks.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False
        ends_s = self._clock.monotonic_s() + TICK_SLICE_S
        while self.work:
            self._run_step()
            if self._clock.monotonic_s() >= ends_s:
                break
        if self.work:
            self._schedule()

    def _run_step(self) -> None:
        """Run one step of the first work. The step may put another one in front of it."""
        entry = work, future = self.work[0]
        try:
            if (wait := next(work)) is not None:
                raise _not_a_pause(wait)
        except StopIteration:
            self.work.remove(entry)
        except Exception as failure:
            self.work.remove(entry)
            if future is None or not isinstance(failure, ApiError):
                logger.exception("%s failed", self._name)
                failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if future is not None:
                future.complete(failure)


def _not_a_pause(wait: object) -> TypeError:
    return TypeError(f"{wait!r} would delay all that is queued behind it")
