"""A live reader finds what must not happen to it."""

from __future__ import annotations

from cluster_faults.readers import LiveReader
from sim.history import History

PLACE = ("t", 0)
NOWHERE = "127.0.0.1:1"


class Message:
    """As librdkafka gives it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return PLACE[0]

    def partition(self) -> int:
        return PLACE[1]

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"%d" % self._offset

    def key(self) -> None:
        return None


def violations(*offsets: int, dense: bool = True) -> list[str]:
    """What a reader says that was given these."""
    history = History(lambda: 0.0)
    reader = LiveReader(NOWHERE, [PLACE], history, name="r", dense=dense)
    for offset in offsets:
        reader.take(Message(offset))
    assert [record.offset for record in reader.readings[PLACE].records] == list(offsets)
    return history.violations


def test_one_after_the_other_is_well() -> None:
    assert violations(0, 1, 2) == []


def test_a_step_back() -> None:
    assert violations(0, 1, 1) == ["0.000 s: I5 non-monotonic: r got ('t', 0) 1 after 1"]


def test_a_skip() -> None:
    assert violations(0, 2) == ["0.000 s: I5 skip: r was at ('t', 0) 1 and got 2"]
    assert violations(0, 2, dense=False) == []
