"""What one request wants of topics: it writes to the tree, and waits for the controller to act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from kavka.seams import Tasks
from kavka.server.controller.topic_waiters import Condition, Outcome, Waiters
from kavka.server.controller.tree_store import ControllerMoved
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import CoordinationError, NodeExists

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from types import TracebackType

TOPICS_A_SLICE: Final = 20
"""Topics of a request that are looked at before the loop gets a turn, which then may have to begin
the writes for them: up to 100 us each."""


def not_controller() -> ApiError:
    """The answer of a broker that is not, or no longer, the controller."""
    return ApiError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


def never() -> bool:
    """The condition of what `Waiters.end` alone tells of."""
    return False


class Outcomes:
    """The topics of one request, by name. Used as a context: who leaves it waits no longer."""

    def __init__(self, waiters: Waiters, tasks: Tasks) -> None:
        self._waiters = waiters
        self._tasks = tasks
        self._writes: dict[str, asyncio.Task[ApiError | None]] = {}
        self._outcomes: dict[str, Outcome] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_up()

    def add(
        self, name: str, condition: Condition, write: Coroutine[object, object, None] | None = None
    ) -> None:
        """Wait for `condition` to hold of a topic, once something is written for it.

        The writes of one request share a sync of the disk.
        """
        self._outcomes[name] = self._waiters.add(name, condition)
        if write is not None:
            task = self._tasks.spawn(_outcome(write), name=f"request for topic {name}")
            self._writes[name] = task

    async def wait(self, timeout_ms: int) -> dict[str, ApiError]:
        """Wait for all; the errors of those for which it did not come true."""
        failed: dict[str, ApiError] = {}
        timer = self._tasks.call_later(timeout_ms / 1000, self._give_up)
        try:
            for name, write in self._writes.items():
                if error := await write:
                    failed[name] = error
                    self._waiters.give_up(name, self._outcomes[name])
            for name, outcome in self._outcomes.items():
                if name not in failed and (error := await outcome):
                    failed[name] = error
        finally:  # also when the client has gone and the request is cancelled
            timer.cancel()
        return failed

    def _give_up(self) -> None:
        for name, outcome in self._outcomes.items():
            if not outcome.done() or outcome.cancelled():  # else nothing waits for it any more
                self._waiters.give_up(name, outcome)


async def _outcome(write: Coroutine[object, object, None]) -> ApiError | None:
    """None when the write was done, else the error for the client."""
    try:
        await write
    except ApiError as error:
        return error
    except NodeExists as error:
        name = error.path.rpartition("/")[2]
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    except ControllerMoved:
        return not_controller()
    except CoordinationError as error:
        message = f"The coordination service failed: {type(error).__name__}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    return None
