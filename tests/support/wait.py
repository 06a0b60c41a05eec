"""The one way a test waits: for a condition, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.01


def eventually(
    condition: Callable[[], T | None],
    *,
    within_s: float,
    what: str,
    detail: Callable[[], str] | None = None,
) -> T:
    """Call `condition` until it gives something true, and return that.

    After `within_s` seconds: AssertionError naming `what`, with `detail()` if there is one.
    An exception of `condition` is not caught: one that may fail for a while says so by None.
    """
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= deadline:
            more = f"\n{detail()}" if detail else ""
            raise AssertionError(f"not within {within_s} s: {what}{more}")
        time.sleep(POLL_S)


def random_moment(chance: random.Random, up_to_s: float) -> None:
    """Let a random time pass: for faults that should strike anywhere, never for a condition."""
    time.sleep(chance.uniform(0, up_to_s))
