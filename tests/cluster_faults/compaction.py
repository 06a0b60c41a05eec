"""What must be left of a topic that is compacted. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sim.history import History, Reading
from sim.judge import number_of


def lost_last_values(history: History, reading: Reading) -> Iterator[str]:
    """I10: of each key the last value that was acknowledged, or one that was written later."""
    last: dict[bytes, int] = {}
    for written in history.acknowledged:
        if written in history.keys:
            of_key = history.keys[written]
            last[of_key] = max(last.get(of_key, -1), number_of(written))
    left = {key: number_of(value) for _, value, key in reading.records if key and value}
    for key, number in last.items():
        if left.get(key, -1) < number:
            yield f"I10 lost last value: {key!r} was {number}, and is {left.get(key)}"
