"""A key whose last value compaction has lost is found."""

from __future__ import annotations

from cluster_faults.compaction import lost_last_values
from sim.history import History, Reading, Seen

PLACE = ("t", 0)


def history() -> History:
    """Of the keys a and b the values 0 and 1, 2 and 3 are acknowledged; 4, of a, is given up."""
    made = History(lambda: 0.0)
    for number, key in enumerate((b"a", b"b", b"a", b"b", b"a")):
        made.keys[b"p:%d:" % number] = key
    made.acknowledged |= {b"p:%d:" % number: number for number in range(4)}
    made.given_up[b"p:4:"] = "timed out"
    return made


def left(*numbers: int) -> list[str]:
    """What is violated if these are left."""
    made = history()
    seen = [Seen(number, b"p:%d:" % number, made.keys[b"p:%d:" % number]) for number in numbers]
    return list(lost_last_values(made, Reading("r", PLACE, False, seen, 5)))


def test_the_last_values_are_enough() -> None:
    assert left(2, 3) == []
    assert left(0, 1, 2, 3) == []


def test_one_that_was_given_up_may_be_the_last() -> None:
    assert left(3, 4) == []


def test_an_earlier_value_is_left() -> None:
    assert left(0, 3) == ["I10 lost last value: b'a' was 2, and is 0"]


def test_a_key_is_gone() -> None:
    assert left(2) == ["I10 lost last value: b'b' was 3, and is None"]
