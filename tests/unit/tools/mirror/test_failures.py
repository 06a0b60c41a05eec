"""How often the mirror tries again."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import failures
from kavka.tools.mirror.failures import (
    FORGOTTEN_AFTER_MS,
    FORGOTTEN_PAUSES_MS,
    PAUSE_S_MAX,
    TRIES_MAX,
    Pauses,
    Stuck,
    Tries,
)

HERE = Stuck(("t", 0), "refused", "leave it out")
THERE = Stuck(("t", 1), "refused too", "leave it out")


class Clock:
    """Stands in for the time."""

    now = 1_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(failures, "now_ms", lambda: found.now)
    return found


def test_it_ends_after_some_tries_without_another_record(clock: Clock) -> None:
    tries = Tries()
    assert [tries.count(HERE, 7) for _ in range(TRIES_MAX - 1)] == [1, 2, 3, 4]
    with pytest.raises(Failed, match="refused, 5 times now; leave it out"):
        tries.count(HERE, 7)


def test_partitions_that_get_stuck_in_turn_end_it(clock: Clock) -> None:
    tries = Tries()
    for _ in range(TRIES_MAX - 1):
        tries.count(HERE, 0)
        tries.count(THERE, 0)
    with pytest.raises(Failed, match="refused too, 5 times now"):
        tries.count(THERE, 0)


def test_what_was_copied_between_begins_the_count_anew(clock: Clock) -> None:
    tries = Tries()
    assert [tries.count(HERE, copied) for copied in range(20)] == [1] * 20


def test_what_was_long_ago_does_not_count(clock: Clock) -> None:
    tries = Tries()
    for _ in range(20):
        clock.now += FORGOTTEN_AFTER_MS + 1
        assert tries.count(HERE, 0) == 1


def refused(offset: int) -> Stuck:
    """For what the topic's configs say, which may change."""
    return Stuck(("t", 0), f"offset {offset} refused", "", offset=offset, tries_max=2)


def test_another_record_is_tried_anew(clock: Clock) -> None:
    """As the last one was not committed, though it is not refused any more."""
    tries = Tries()
    assert [tries.count(refused(offset), 7) for offset in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(Failed, match="offset 2 refused, 2 times now"):
        tries.count(refused(2), 7)


def test_records_that_are_refused_in_turn_end_it(clock: Clock) -> None:
    tries = Tries()
    for offset in range(TRIES_MAX - 1):
        tries.count(refused(offset), 7)
    with pytest.raises(Failed, match="offset 9 refused, 5 times now"):
        tries.count(refused(9), 7)


def test_it_waits_longer_each_time_that_nothing_was_copied(clock: Clock) -> None:
    pauses = Pauses()
    assert [pauses.next_s(7) for _ in range(5)] == [0, 1, 2, 4, 8]
    assert [pauses.next_s(7) for _ in range(3)] == [16, PAUSE_S_MAX, PAUSE_S_MAX]
    assert [pauses.next_s(8), pauses.next_s(8), pauses.next_s(9)] == [0, 1, 0]


def test_what_has_worked_for_long_begins_at_once(clock: Clock) -> None:
    pauses = Pauses()
    for _ in range(5):
        assert pauses.next_s(7) == 0
        clock.now += FORGOTTEN_PAUSES_MS + 1
