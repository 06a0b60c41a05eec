"""What instances tell: see programs/reporting.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

ENDS: Final = frozenset({"left", "fenced", "failed"})
"""The instance's last words."""


@dataclass(frozen=True)
class Told:
    """One line."""

    instance: str
    what: str
    attempt: int = 0
    ranges: tuple[tuple[str, int, int], ...] = ()
    """Records of the input: place, first and last offset."""
    why: str = ""
    at_ms: int = 0
    """Wall clock of the machine."""


def read(line: bytes | str) -> Told:
    """What a line tells."""
    told = json.loads(line)
    return Told(
        instance=told["m"],
        what=told["e"],
        attempt=told.get("a", 0),
        ranges=tuple((at, first, last) for at, first, last in told.get("r", ())),
        why=told.get("why", ""),
        at_ms=told["t"],
    )
