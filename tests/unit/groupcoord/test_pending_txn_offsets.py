"""Offsets in open transactions: what counts when which of them ends."""

from __future__ import annotations

import pytest

from kavka.groupcoord.pending_txn_offsets import DecidedOffset, PendingOffsets

ONE, TWO = 7, 8
PLACE = ("g", "t", 0)


def both_at_one_place() -> PendingOffsets:
    """Producer TWO after ONE."""
    pending = PendingOffsets()
    pending.put(ONE, *PLACE, b"one")
    pending.put(TWO, *PLACE, b"two")
    return pending


def test_they_count_when_the_transaction_is_committed() -> None:
    pending = PendingOffsets()
    pending.put(ONE, "g", "t", 0, b"a")
    pending.put(ONE, "g", "u", 3, b"b")
    pending.put(ONE, "h", "t", 0, b"c")
    assert pending.has("g", "u", 3) and not pending.has("g", "t", 3)
    assert pending.complete(ONE, committed=True) == [
        DecidedOffset("g", "t", 0, b"a"),
        DecidedOffset("g", "u", 3, b"b"),
        DecidedOffset("h", "t", 0, b"c"),
    ]
    assert not pending and not pending.has_any("g")


def test_they_are_gone_when_it_is_aborted() -> None:
    pending = both_at_one_place()
    assert pending.complete(ONE, committed=False) == []
    assert pending.has(*PLACE)
    assert pending.complete(TWO, committed=True) == [DecidedOffset(*PLACE, b"two")]


def test_an_unknown_transaction_ends_without_anything() -> None:
    assert both_at_one_place().complete(9, committed=True) == []


def test_the_later_of_two_counts_when_it_ends_last() -> None:
    pending = both_at_one_place()
    assert pending.complete(ONE, committed=True) == [DecidedOffset(*PLACE, b"one")]
    assert pending.complete(TWO, committed=True) == [DecidedOffset(*PLACE, b"two")]


def test_the_later_of_two_counts_when_it_ends_first() -> None:
    pending = both_at_one_place()
    assert pending.complete(TWO, committed=True) == [DecidedOffset(*PLACE, b"two")]
    assert pending.has(*PLACE)
    assert pending.complete(ONE, committed=True) == []
    assert not pending


def test_the_earlier_counts_if_the_later_is_aborted() -> None:
    pending = both_at_one_place()
    assert pending.complete(TWO, committed=False) == []
    assert pending.complete(ONE, committed=True) == [DecidedOffset(*PLACE, b"one")]


def test_who_commits_again_is_the_latest() -> None:
    pending = both_at_one_place()
    pending.put(ONE, *PLACE, b"one again")
    assert pending.complete(ONE, committed=True) == [DecidedOffset(*PLACE, b"one again")]
    assert pending.complete(TWO, committed=True) == []


def test_a_commit_without_a_transaction_overtakes_what_was_before() -> None:
    pending = both_at_one_place()
    pending.supersede(*PLACE)
    pending.put(TWO, *PLACE, b"two again")
    assert pending.has(*PLACE)
    assert pending.complete(ONE, committed=True) == []
    assert pending.complete(TWO, committed=True) == [DecidedOffset(*PLACE, b"two again")]


def test_a_commit_elsewhere_overtakes_nothing() -> None:
    pending = both_at_one_place()
    for place in (("g", "t", 1), ("g", "u", 0), ("h", "t", 0)):
        pending.supersede(*place)
    assert pending.complete(ONE, committed=True) == [DecidedOffset(*PLACE, b"one")]


def test_a_tombstone_takes_all_of_a_place() -> None:
    pending = both_at_one_place()
    pending.put(ONE, "g", "t", 1, b"other")
    pending.remove(*PLACE)
    assert not pending.has(*PLACE)
    assert pending.of_group("g") == [("t", 1)]
    assert pending.complete(TWO, committed=True) == []
    assert pending.complete(ONE, committed=True) == [DecidedOffset("g", "t", 1, b"other")]
    pending.remove(*PLACE)
    assert not pending


def test_places() -> None:
    pending = both_at_one_place()
    pending.put(ONE, "h", "t", 5, b"")
    assert list(pending.all_partitions()) == [PLACE, ("h", "t", 5)]
    assert pending.of_group("nobody") == []


def test_what_may_come_to_count() -> None:
    pending = both_at_one_place()
    assert pending.values(*PLACE) == [b"one", b"two"]
    pending.complete(TWO, committed=True)
    assert pending.values(*PLACE) == []
    assert pending.values("g", "t", 1) == pending.values("h", "t", 0) == []


def test_many_are_decided_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.groupcoord.pending_txn_offsets.OFFSETS_A_STEP", 2)
    pending = PendingOffsets()
    for partition in range(5):
        pending.put(ONE, "g", "t", partition, b"v")
    assert [one.partition for one in pending.complete(ONE, committed=True)] == [0, 1]
    assert pending.is_open(ONE)
    assert [one.partition for one in pending.complete(ONE, committed=True)] == [2, 3]
    assert [one.partition for one in pending.complete(ONE, committed=True)] == [4]
    assert not pending.is_open(ONE) and not pending
