"""A purgatory for the controller's requests: each waits until a condition holds for a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kavka.seams import Tasks
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

TopicFuture: TypeAlias = "asyncio.Future[ApiError | None]"
"""None when the condition holds, else the error that ended the wait."""

Condition: TypeAlias = Callable[[], bool]
"""Whether the wait is over; checked on every change of the topic."""


class TopicWaiters:
    """Waiting requests by topic; bounded by the number of pending requests."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._outcomes: dict[str, dict[TopicFuture, Condition]] = {}
        self._over: ApiError | None = None
        """Why nobody checks conditions any more."""

    def __contains__(self, name: str) -> bool:
        return name in self._outcomes

    def add(self, name: str, condition: Condition) -> TopicFuture:
        """Wait until `condition` holds; the future is done at once if it does already, and after
        `close`."""
        outcome: TopicFuture = self._tasks.future()
        if condition():
            outcome.set_result(None)
        elif self._over is not None:
            outcome.set_result(self._over)
        else:
            self._outcomes.setdefault(name, {})[outcome] = condition
        return outcome

    def check(self, name: str) -> None:
        """Check the conditions of a topic that has changed."""
        for outcome, condition in list(self._outcomes.get(name, {}).items()):
            if condition():
                self._complete(name, outcome, None)

    def complete_all(self, name: str, error: ApiError | None) -> None:
        """Complete all waits for a topic, successfully or with `error`."""
        for outcome in list(self._outcomes.get(name, ())):
            self._complete(name, outcome, error)

    def fail(self, error: ApiError) -> None:
        """Fail all waits for all topics."""
        for name in list(self._outcomes):
            self.complete_all(name, error)

    def close(self, error: ApiError) -> None:
        """Fail all waits, also those of requests that were writing to the tree until now."""
        self._over = error
        self.fail(error)

    def time_out(self, name: str, outcome: TopicFuture) -> None:
        """End one wait with REQUEST_TIMED_OUT. No effect if it is complete already."""
        self._complete(name, outcome, ApiError(ErrorCode.REQUEST_TIMED_OUT))

    def _complete(self, name: str, outcome: TopicFuture, error: ApiError | None) -> None:
        outcomes = self._outcomes.get(name, {})
        if outcomes.pop(outcome, None) is not None and not outcomes:
            del self._outcomes[name]
        if not outcome.done():
            outcome.set_result(error)
