"""The one way to wait for a broker: for a condition, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

POLL_S: Final = 0.01


class NotInTime(Exception):
    """What was waited for did not come."""


def eventually(
    condition: Callable[[], T | None], *, within_s: float, goal: str, poll_s: float = POLL_S
) -> T:
    """Call `condition` until it gives something true, and return that. NotInTime."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline_s:
            raise NotInTime(f"not within {within_s:g} s: {goal}")
        time.sleep(poll_s)
