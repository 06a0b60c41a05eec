"""Guards: shown once, good for one producer, and void once something came in between (KIP-890)."""

from __future__ import annotations

import pytest

from kavka.log import txn_guards
from kavka.log.txn_guards import NOT_NEEDED, Verifications
from kavka.wire.errors import ApiError, ErrorCode


def test_a_guard_is_good_for_its_producer_until_something_is_appended() -> None:
    found = Verifications()
    guard = found.begin(1, 0, 0, 100)
    other = found.begin(2, 0, 0, 100)
    assert guard != other
    assert found.holds(1, guard) and found.holds(2, other)
    assert not found.holds(1, other) and not found.holds(3, guard) and not found.holds(1, None)
    found.batch_appended(1)
    assert not found.holds(1, guard), "a marker or a batch has come in between"
    assert found.begin(1, 0, 0, 100) != guard
    assert not found.holds(1, guard)


def test_two_requests_get_the_same_guard() -> None:
    found = Verifications()
    assert found.begin(1, 5, 0, 100) == found.begin(1, 9, 0, 200)


def test_no_guard_is_needed_without_verification() -> None:
    assert Verifications().holds(1, NOT_NEEDED)
    assert not Verifications().holds(1, None)


def test_the_lowest_sequence_of_the_newest_epoch_is_kept() -> None:
    found = Verifications()
    assert found.lowest_sequence(1, has_written=True) is None
    steps = [(5, 1, 5), (9, 1, 5), (3, 1, 3), (0, 0, 3), (7, 2, 7), (8, 2, 7), (1, 1, 7)]
    for sequence, epoch, lowest in steps:
        found.begin(1, sequence, epoch, 100)
        assert found.lowest_sequence(1, has_written=True) == lowest
    found.batch_appended(1)
    assert found.lowest_sequence(1, has_written=True) is None


def test_guards_expire() -> None:
    found = Verifications()
    guards = {producer: found.begin(producer, 0, 0, 100 * producer) for producer in (1, 2, 3)}
    found.expire(200)
    assert [found.holds(*pair) for pair in guards.items()] == [False, False, True]
    found.clear()
    assert not found.holds(3, guards[3])


def test_an_unknown_producer_of_the_second_protocol_begins_with_0() -> None:
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
        found.marker_appended(producer, epoch)
    assert [found.holds(*pair) for pair in guards.items()] == [True, False, False]


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> Verifications:
    monkeypatch.setattr(txn_guards, "PENDING_MAX", 2)
    return Verifications()


def test_a_guard_over_the_limit_replaces_a_failed_one(room_for_two: Verifications) -> None:
    found = room_for_two
    waiting, failed = found.begin(1, 0, 0, 100), found.begin(2, 0, 0, 100)
    found.failed(2, failed, is_final=False)
    assert found.holds(2, failed), "its client is to ask again"
    newer = found.begin(3, 0, 0, 100)
    assert found.holds(1, waiting) and found.holds(3, newer) and not found.holds(2, failed)


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_guard_over_the_limit_does_not_replace_pending_or_confirmed_ones(
    room_for_two: Verifications, is_confirmed: bool
) -> None:
    found = room_for_two
    guards = [found.begin(producer, 0, 0, 100) for producer in (1, 2)]
    if is_confirmed:
        for producer, guard in enumerate(guards, 1):
            found.confirmed(producer, guard)
    with pytest.raises(ApiError) as raised:
        found.begin(3, 0, 0, 100 + txn_guards.STALE_MS - 1)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.holds(1, guards[0]) and found.holds(2, guards[1])
    if is_confirmed:  # and was never shown
        assert found.holds(3, found.begin(3, 0, 0, 100 + txn_guards.STALE_MS))
        assert not found.holds(1, guards[0]) and found.holds(2, guards[1])


def test_after_a_final_failure_nothing_is_kept(room_for_two: Verifications) -> None:
    found = room_for_two
    waiting = found.begin(1, 0, 0, 100)
    for producer in range(2, 100):
        guard = found.begin(producer, 0, 0, 100)
        found.failed(producer, guard, is_final=True)
        assert not found.holds(producer, guard)
        assert found.lowest_sequence(producer, has_written=True) is None
    assert found.holds(1, waiting)


@pytest.mark.parametrize("confirmed_first", [False, True])
def test_a_request_with_another_s_producer_id_does_not_remove_its_guard(
    confirmed_first: bool,
) -> None:
    found = Verifications()
    guard = found.begin(1, 0, 0, 100)
    if confirmed_first:
        found.confirmed(1, guard)
    stranger = found.begin(1, 0, 0, 100)
    found.failed(1, stranger, is_final=True)
    assert found.holds(1, guard)
    if not confirmed_first:
        found.confirmed(1, guard)
        assert found.holds(1, guard)


def test_an_answer_about_a_removed_guard_is_ignored() -> None:
    found = Verifications()
    old = found.begin(1, 0, 0, 100)
    found.batch_appended(1)
    new = found.begin(1, 0, 0, 100)
    found.failed(1, old, is_final=True)
    assert found.holds(1, new)
    found.confirmed(1, old)
    found.failed(1, new, is_final=True)
    assert not found.holds(1, new)
