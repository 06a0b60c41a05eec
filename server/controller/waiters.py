"""Requests that wait for something to become true of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kavka.seams import Tasks
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

Outcome: TypeAlias = "asyncio.Future[ApiError | None]"
"""None when it has come true, else why it is waited for no longer."""


class Waiters:
    """Futures by topic. They number as many as there are unanswered requests for topics."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._outcomes: dict[str, list[Outcome]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._outcomes

    def add(self, name: str) -> Outcome:
        """Wait for a topic."""
        outcome: Outcome = self._tasks.future()
        self._outcomes.setdefault(name, []).append(outcome)
        return outcome

    def done(self, name: str) -> None:
        """It has come true."""
        self._settle(name, None)

    def fail(self, error: ApiError) -> None:
        """Nothing will come true any more."""
        for name in list(self._outcomes):
            self._settle(name, error)

    def give_up(self, name: str, outcome: Outcome) -> None:
        """One waits no longer: REQUEST_TIMED_OUT. Harmless when it is settled already."""
        outcomes = self._outcomes.get(name, [])
        if outcome in outcomes:
            outcomes.remove(outcome)
            if not outcomes:
                del self._outcomes[name]
        if not outcome.done():
            outcome.set_result(ApiError(ErrorCode.REQUEST_TIMED_OUT))

    def _settle(self, name: str, error: ApiError | None) -> None:
        for outcome in self._outcomes.pop(name, ()):
            if not outcome.done():
                outcome.set_result(error)
