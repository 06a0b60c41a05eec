"""Offsets of open transactions. For which of them wins see
`tests/scenarios/offsets/transactions.txt`."""

from __future__ import annotations

import pytest

from kavka.groupcoord import pending_txn_offsets
from kavka.groupcoord.pending_txn_offsets import DecidedOffset, PendingOffsets

PARTITION = ("g", "t", 0)


def test_what_is_pending() -> None:
    pending = PendingOffsets()
    pending.put(7, *PARTITION, b"one")
    pending.put(8, *PARTITION, b"two")
    pending.put(7, "h", "t", 5, b"")
    assert list(pending.all_partitions()) == [PARTITION, ("h", "t", 5)]
    assert (pending.of_group("g"), pending.of_group("unknown")) == ([("t", 0)], [])
    assert pending.has(*PARTITION) and not pending.has("g", "t", 3) and pending.has_any("h")
    assert pending.values(*PARTITION) == [b"one", b"two"]
    assert pending.complete(8, committed=True) == [DecidedOffset(*PARTITION, b"two")]
    assert pending.values(*PARTITION) == [], "superseded"
    assert pending.values("g", "t", 1) == pending.values("i", "t", 0) == []
    pending.remove(*PARTITION)
    pending.remove(*PARTITION)
    assert not pending.has_any("g") and pending
    assert pending.complete(7, committed=False) == []
    assert not pending


def test_a_transaction_is_completed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_txn_offsets, "OFFSETS_PER_STEP", 2)
    pending = PendingOffsets()
    for partition in range(5):
        pending.put(7, "g", "t", partition, b"v")
    for expected in ([0, 1], [2, 3], [4]):
        assert pending.is_open(7)
        assert [offset.partition for offset in pending.complete(7, committed=True)] == expected
    assert not pending.is_open(7) and not pending
