"""What the actors of a world saw, for the judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""Topic and partition."""


class Write(NamedTuple):
    """A record that a producer wants to write; `value` is unique."""

    producer: str
    place: Place
    value: bytes
    at_s: float
    is_idempotent: bool


class Seen(NamedTuple):
    """A record that a reader was given."""

    offset: int
    value: bytes


@dataclass
class Reading:
    """What one reader was given of one partition, in order, since it began or was reset."""

    reader: str
    place: Place
    records: list[Seen] = field(default_factory=list)
    high_watermarks: list[tuple[float, int]] = field(default_factory=list)


class History:
    """All operations and their outcomes."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.writes: dict[bytes, Write] = {}
        self.acknowledged: dict[bytes, int] = {}
        """Offsets by value."""
        self.acknowledged_at_s: dict[bytes, float] = {}
        self.failed: dict[bytes, None] = {}
        """Writes that the broker has refused: none of them may be seen."""
        self.readings: list[Reading] = []
        self.violations: list[str] = []
        self.may_lose = False
        """Whether acknowledged records may be lost: the power was cut, and nothing is synced before
        it is acknowledged."""

    def violation(self, what: str) -> None:
        """A judge has found something."""
        self.violations.append(f"{self.now_s():.3f} s: {what}")
