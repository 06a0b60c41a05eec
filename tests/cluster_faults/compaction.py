"""What must be left of a topic that is compacted. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sim.history import History, Reading
from sim.judge import number_of


def lost_last_values(history: History, reading: Reading) -> Iterator[str]:
    """I10: of each key the last value that was acknowledged, or one that was written later."""
    last: dict[bytes, int] = {}
    for value in history.acknowledged:
        key = history.keys.get(value)
        if key is not None:
            last[key] = max(last.get(key, -1), number_of(value))
    left: dict[bytes, int] = {}
    for _, value, key in reading.records:
        if key is not None and value is not None:
            left[key] = number_of(value)
    for key, number in last.items():
        if left.get(key, -1) < number:
            yield f"I10 lost last value: {key!r} was {number}, and is {left.get(key)}"
