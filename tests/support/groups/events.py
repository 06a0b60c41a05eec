"""What members of groups report: see programs/reporting.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Place = str
"""A partition, as `topic/partition`."""

GOES: Final = frozenset({"left", "failed", "killed"})
"""The member owns nothing from here on."""

MOVES: Final = frozenset({"assigned", "owns", "revoked", "lost"}) | GOES
"""Who owns what may be another from here on."""


@dataclass(frozen=True)
class Event:
    """One of them, or a mark: `killed` for a member, `stable` or `rewound` for a group."""

    group: str
    what: str
    member: str = ""
    at_ms: int = 0
    """Wall clock of the machine."""
    places: tuple[Place, ...] = ()
    ranges: tuple[tuple[Place, int, int], ...] = ()
    """Records processed: place, first and last offset."""
    offsets: Mapping[Place, int] = field(default_factory=dict)
    """Offsets committed, or refused."""
    why: str = ""


def read(line: bytes | str, groups: Mapping[str, str]) -> Event:
    """The event of a line; `groups` has the members' groups."""
    fields = json.loads(line)
    return Event(
        group=groups[fields["m"]],
        what=fields["e"],
        member=fields["m"],
        at_ms=fields["t"],
        places=tuple(fields.get("p", ())),
        ranges=tuple((at, first, last) for at, first, last in fields.get("r", ())),
        offsets=fields.get("o", {}),
        why=fields.get("why", ""),
    )
