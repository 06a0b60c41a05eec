"""What instances report: see programs/reporting.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

ENDS: Final = frozenset({"left", "fenced", "failed"})
"""The instance's last words."""


@dataclass(frozen=True)
class Report:
    """One line."""

    instance: str
    what: str
    attempt: int = 0
    ranges: tuple[tuple[str, int, int], ...] = ()
    """Records of the input: place, first and last offset."""
    why: str = ""
    at_ms: int = 0
    """Wall clock of the machine."""


def read(line: bytes | str) -> Report:
    """What a line reports."""
    fields = json.loads(line)
    return Report(
        instance=fields["m"],
        what=fields["e"],
        attempt=fields.get("a", 0),
        ranges=tuple((at, first, last) for at, first, last in fields.get("r", ())),
        why=fields.get("why", ""),
        at_ms=fields["t"],
    )
