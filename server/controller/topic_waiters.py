"""Requests that wait for something to become true of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kavka.seams import Tasks
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

Outcome: TypeAlias = "asyncio.Future[ApiError | None]"
"""None when it has come true, else why it is waited for no longer."""

Condition: TypeAlias = Callable[[], bool]
"""Whether it has come true; asked whenever something has changed about the topic."""


class Waiters:
    """Futures by topic. They number as many as there are unanswered requests for topics."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._outcomes: dict[str, dict[Outcome, Condition]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._outcomes

    def add(self, name: str, condition: Condition) -> Outcome:
        """Wait for something of a topic; it may be so already."""
        outcome: Outcome = self._tasks.future()
        if condition():
            outcome.set_result(None)
        else:
            self._outcomes.setdefault(name, {})[outcome] = condition
        return outcome

    def check(self, name: str) -> None:
        """Something has changed about a topic: for some it may have come true."""
        for outcome, condition in list(self._outcomes.get(name, {}).items()):
            if condition():
                self._settle(name, outcome, None)

    def end(self, name: str, error: ApiError | None) -> None:
        """For a topic it has come true for all, or never will."""
        for outcome in list(self._outcomes.get(name, ())):
            self._settle(name, outcome, error)

    def fail(self, error: ApiError) -> None:
        """Nothing will come true any more."""
        for name in list(self._outcomes):
            self.end(name, error)

    def give_up(self, name: str, outcome: Outcome) -> None:
        """One waits no longer: REQUEST_TIMED_OUT. Harmless when it is settled already."""
        self._settle(name, outcome, ApiError(ErrorCode.REQUEST_TIMED_OUT))

    def _settle(self, name: str, outcome: Outcome, error: ApiError | None) -> None:
        outcomes = self._outcomes.get(name, {})
        if outcomes.pop(outcome, None) is not None and not outcomes:
            del self._outcomes[name]
        if not outcome.done():
            outcome.set_result(error)
