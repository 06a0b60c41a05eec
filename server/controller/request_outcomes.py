"""One request about topics: it writes to the tree, then waits until the controller has acted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from kavka.seams import Tasks
from kavka.server.controller.topic_waiters import Condition, TopicFuture, TopicWaiters
from kavka.server.controller.tree_store import ControllerMoved
from kavka.server.coordination.failures import coordination_failed
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError, NodeExists, SessionExpired

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from types import TracebackType

TOPICS_PER_STEP: Final = 20
"""Topics of a request that are handled between two yields to the event loop. Each may start a
write, which costs up to 100 us."""


def not_controller() -> ApiError:
    """The error of a broker that is not, or no longer, the controller."""
    return ApiError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


def tree_failed(error: ControllerMoved | CoordinationError) -> ApiError:
    """The error for a client whose request needed the tree. If the term has ended, the client may
    ask the next controller. If the response to a write was lost, the write may have taken
    effect."""
    if isinstance(error, ControllerMoved | SessionExpired):
        return not_controller()
    return coordination_failed(error)


def never() -> bool:
    """The condition of a wait that only `TopicWaiters.complete_all` completes."""
    return False


class RequestOutcomes:
    """The waits of one request, by topic. A context manager: on exit pending waits time out."""

    def __init__(self, waiters: TopicWaiters, tasks: Tasks) -> None:
        self._waiters = waiters
        self._tasks = tasks
        self._writes: dict[str, asyncio.Task[ApiError | None]] = {}
        self._outcomes: dict[str, TopicFuture] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._time_out()

    def add(
        self, name: str, condition: Condition, write: Coroutine[object, object, None] | None = None
    ) -> None:
        """Run `write` in a task, if given, and wait until `condition` holds for the topic.

        The writes of one request share an fsync.
        """
        self._outcomes[name] = self._waiters.add(name, condition)
        if write is not None:
            task = self._tasks.spawn(_outcome(write), name=f"request for topic {name}")
            self._writes[name] = task

    async def wait(self, timeout_ms: int) -> dict[str, ApiError]:
        """Wait for all topics. Returns the errors, by topic."""
        failed: dict[str, ApiError] = {}
        timer = self._tasks.call_later(timeout_ms / 1000, self._time_out)
        try:
            for name, write in self._writes.items():
                if error := await write:
                    failed[name] = error
                    self._waiters.time_out(name, self._outcomes[name])
            for name, outcome in self._outcomes.items():
                if name not in failed and (error := await outcome):
                    failed[name] = error
        finally:  # also if the client disconnects and the request is cancelled
            timer.cancel()
        return failed

    def _time_out(self) -> None:
        for name, outcome in self._outcomes.items():
            if not outcome.done() or outcome.cancelled():  # else it is complete
                self._waiters.time_out(name, outcome)


async def _outcome(write: Coroutine[object, object, None]) -> ApiError | None:
    """None if the write succeeded, else the error for the client."""
    try:
        await write
    except ApiError as error:
        return error
    except NodeExists as error:
        name = error.path.rpartition("/")[2]
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    except (ControllerMoved, CoordinationError) as error:
        return tree_failed(error)
    return None
