"""Windows of event time: a plain model of what the pipeline aggregate makes of events."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from support.spark import Record

BASE_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""

SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string"},
        "amount": {"type": "integer"},
        "at": {"type": "integer"},
    },
    "required": ["amount"],
}


class Event(NamedTuple):
    at_ms: int
    """The event's time."""
    kind: str | None
    amount: int

    def record(self, partition: int) -> Record:
        """In JSON, with the kind as key; the record's own time is another one."""
        value = {"kind": self.kind, "amount": self.amount, "at": self.at_ms}
        key = None if self.kind is None else self.kind.encode()
        return Record(json.dumps(value).encode(), key, partition, BASE_MS - 1)


class Span(NamedTuple):
    """A window of one kind, in milliseconds; the end is not in it."""

    start: int
    end: int
    kind: str | None


class Total(NamedTuple):
    events: int
    amount: int


def random_events(
    chance: random.Random, count: int, *, first_s: float, last_s: float, odd: bool = False
) -> list[Event]:
    """Less than 500 events of three kinds, and of none, at any time between two, in seconds after
    BASE_MS: out of order. No two times, nor those of `odd` ones, differ by whole seconds: no two
    sessions just touch."""
    return [
        Event(
            BASE_MS + int(chance.uniform(first_s, last_s)) * 1000 + 2 * number + odd,
            chance.choice(("a", "b", "c", None)),
            chance.randrange(-5, 100),
        )
        for number in range(count)
    ]


def sliding(events: Iterable[Event], length_ms: int, slide_ms: int) -> dict[Span, Total]:
    """Windows that begin at the multiples of `slide_ms`; tumbling ones if that is their length."""
    return _totals(
        (Span(start, start + length_ms, event.kind), event)
        for event in events
        for start in range(event.at_ms // slide_ms * slide_ms, event.at_ms - length_ms, -slide_ms)
    )


def sessions(events: Iterable[Event], gap_ms: int) -> dict[Span, Total]:
    """Windows that end when a kind has had no event for `gap_ms`."""
    found: list[list[Event]] = []
    for event in sorted(events, key=lambda event: (str(event.kind), event.at_ms)):
        last = found[-1][-1] if found else None
        if last is None or last.kind != event.kind or event.at_ms >= last.at_ms + gap_ms:
            found.append([])
        found[-1].append(event)
    return _totals(
        (Span(session[0].at_ms, session[-1].at_ms + gap_ms, session[0].kind), event)
        for session in found
        for event in session
    )


def _totals(pairs: Iterable[tuple[Span, Event]]) -> dict[Span, Total]:
    totals: dict[Span, Total] = {}
    for span, event in pairs:
        events, amount = totals.get(span, (0, 0))
        totals[span] = Total(events + 1, amount + event.amount)
    return totals


def closed(windows: Mapping[Span, Total], watermark_ms: int) -> dict[Span, Total]:
    """Those that end at or before the watermark: what mode append has written."""
    return {span: total for span, total in windows.items() if span.end <= watermark_ms}


Model = Callable[[Iterable[Event]], dict[Span, Total]]
