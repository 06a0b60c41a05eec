"""How often the mirror tries again."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import failures
from kavka.tools.mirror.failures import FORGOTTEN_AFTER_MS, TRIES_MAX, Stuck, Tries

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
