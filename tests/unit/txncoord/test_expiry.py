"""Transactional ids that nobody uses: when they go, and how many at a time."""

from __future__ import annotations

import pytest

from kavka.txncoord import expiry
from kavka.txncoord.requests import ProducerIdAndEpoch
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.transaction_machine import FIRST_ID, TransactionKit

SWEEP_MS = 60_000
UNUSED_MS = 600_000


@pytest.fixture
def kit() -> TransactionKit:
    return TransactionKit(
        transaction_remove_expired_transaction_cleanup_interval_ms=SWEEP_MS,
        transactional_id_expiration_ms=UNUSED_MS,
    )


def test_an_id_goes_when_it_was_not_used_for_long(kit: TransactionKit) -> None:
    producer = kit.init()
    kit.advance(UNUSED_MS - 1)
    assert "x" in kit.shard.state.transactions
    kit.advance(1)
    assert "x" not in kit.shard.state.transactions
    assert kit.appended[-1] == (b"\x00\x00\x00\x01x", None)
    assert refusal_of_add(kit, producer) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert kit.init() == (FIRST_ID + 1, 0)


def refusal_of_add(kit: TransactionKit, producer: ProducerIdAndEpoch) -> ErrorCode:
    return kit.verify(producer, ("t", 0))[0]


def test_an_id_that_is_used_stays(kit: TransactionKit) -> None:
    producer = kit.init()
    for _ in range(5):
        kit.advance(UNUSED_MS // 2)
        producer = kit.transact(producer)
    assert kit.verify(producer, ("t", 0)) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_an_id_stays_while_its_transaction_is_not_complete(kit: TransactionKit) -> None:
    producer = kit.init()
    kit.add(producer)
    kit.end(producer)
    kit.advance(2 * UNUSED_MS)
    kit.mark()
    kit.advance(UNUSED_MS - 1)
    assert "x" in kit.shard.state.transactions
    kit.advance(SWEEP_MS)
    assert "x" not in kit.shard.state.transactions


def test_tombstones_that_are_refused_come_at_the_next_look(kit: TransactionKit) -> None:
    kit.init()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    kit.advance(UNUSED_MS)
    assert not kit.port.failures
    assert "x" in kit.shard.state.transactions
    kit.advance(SWEEP_MS)
    assert "x" not in kit.shard.state.transactions


def test_who_takes_over_looks_after_the_interval(kit: TransactionKit) -> None:
    kit.init()
    kit.now_ms += 2 * UNUSED_MS
    kit.move()
    kit.advance(SWEEP_MS - 1)
    assert "x" in kit.shard.state.transactions
    kit.advance(1)
    assert "x" not in kit.shard.state.transactions


def test_many_go_in_steps(kit: TransactionKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "IDS_A_STEP", 10)
    for number in range(25):
        kit.init(f"x{number}")
    written = len(kit.port.batches)
    kit.advance(UNUSED_MS)
    assert [len(records) for records, _ in kit.port.batches[written:]] == [10, 10, 5]
    assert not kit.shard.state.transactions


def test_a_batch_of_long_ids_is_not_too_big(
    kit: TransactionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "TOMBSTONE_BYTES_A_STEP", 1_000)
    for number in range(4):
        kit.init(f"{number}" * 600)
    written = len(kit.port.batches)
    kit.advance(UNUSED_MS)
    assert [len(records) for records, _ in kit.port.batches[written:]] == [2, 2]


def test_what_changes_between_two_steps_counts(
    kit: TransactionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "IDS_A_STEP", 1)
    for one in ("x", "y"):
        kit.init(one)
    kit.now_ms += UNUSED_MS
    assert run_at_once(kit.journal.tick_in_steps(kit.now_ms))
    kit.init("y")
    kit.advance(0)
    assert list(kit.shard.state.transactions) == ["y"]
