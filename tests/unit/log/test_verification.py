"""Guards: shown once, good for one producer, and void once something came in between (KIP-890)."""

from __future__ import annotations

import pytest

from kavka.log import verification
from kavka.log.verification import NOT_NEEDED, Verifications


def test_a_guard_is_good_for_its_producer_until_something_is_appended() -> None:
    found = Verifications()
    guard = found.begin(1, 0, 0, 100)
    other = found.begin(2, 0, 0, 100)
    assert guard != other
    assert found.holds(1, guard) and found.holds(2, other)
    assert not found.holds(1, other) and not found.holds(3, guard) and not found.holds(1, None)
    found.end(1)
    assert not found.holds(1, guard), "a marker or a batch has come in between"
    assert found.begin(1, 0, 0, 100) != guard
    assert not found.holds(1, guard)


def test_whoever_asks_twice_has_the_same_guard() -> None:
    found = Verifications()
    assert found.begin(1, 5, 0, 100) == found.begin(1, 9, 0, 200)


def test_nothing_has_to_be_shown_where_nobody_is_asked() -> None:
    assert Verifications().holds(1, NOT_NEEDED)
    assert not Verifications().holds(1, None)


def test_the_lowest_sequence_of_the_newest_epoch_is_kept() -> None:
    found = Verifications()
    assert found.lowest_sequence(1, has_written=True) is None
    steps = [(5, 1, 5), (9, 1, 5), (3, 1, 3), (0, 0, 3), (7, 2, 7), (8, 2, 7), (1, 1, 7)]
    for sequence, epoch, lowest in steps:
        found.begin(1, sequence, epoch, 100)
        assert found.lowest_sequence(1, has_written=True) == lowest
    found.end(1)
    assert found.lowest_sequence(1, has_written=True) is None


def test_they_do_not_stay_for_ever() -> None:
    found = Verifications()
    guards = {producer: found.begin(producer, 0, 0, 100 * producer) for producer in (1, 2, 3)}
    found.expire(200)
    assert [found.holds(*one) for one in guards.items()] == [False, False, True]
    found.clear()
    assert not found.holds(3, guards[3])


def test_who_has_written_nothing_begins_with_0_where_each_transaction_has_its_epoch() -> None:
    found = Verifications()
    found.begin(1, 5, 0, 100, v2=True)
    found.begin(2, 5, 0, 100)
    assert [found.lowest_sequence(producer, has_written=False) for producer in (1, 2, 3)] == [
        0,
        5,
        None,
    ]


def test_a_marker_takes_the_guard_away_unless_it_is_of_the_transaction_before() -> None:
    found = Verifications()
    guards = {
        producer: found.begin(producer, 0, 4, 100, v2=v2)
        for producer, v2 in ((1, True), (2, True), (3, False))
    }
    for producer, epoch in ((1, 4), (2, 5), (3, 4), (9, 4)):
        found.marked(producer, epoch)
    assert [found.holds(*one) for one in guards.items()] == [True, False, False]


def test_they_are_not_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PENDING_MAX", 2)
    found = Verifications()
    guards = {producer: found.begin(producer, 0, 0, 100) for producer in (1, 2, 3)}
    assert [found.holds(*one) for one in guards.items()] == [False, True, True]
    assert found.begin(3, 0, 0, 100) == guards[3]


def test_no_guard_is_good_for_a_log_made_anew() -> None:
    guard = Verifications().begin(1, 0, 0, 100)
    again = Verifications()
    again.begin(1, 0, 0, 100)
    assert not again.holds(1, guard)
