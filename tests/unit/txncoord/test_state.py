"""What the rules share."""

from __future__ import annotations

import pytest

from kavka.log.journal import Record
from kavka.txncoord.records import decode, tombstone
from kavka.txncoord.requests import NeedsProducerId
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import State, created, initialised
from kavka.wire.steps import run_at_once
from support.journal_kit import START_MS
from support.transaction_machine import Settings

ONE = initialised(
    created(7, 1_000, START_MS),
    producer_id=7,
    producer_epoch=4,
    last_epoch=3,
    timeout_ms=1_000,
    now_ms=START_MS,
)


def state(*fresh: int, feature: int = 2) -> TransactionsState:
    settings = Settings(kavka_transaction_version=feature)
    left = list(fresh)
    return TransactionsState(lambda: settings, lambda: left.pop(0) if left else None)


def test_producer_ids_are_taken_one_by_one() -> None:
    shared = state(5, 6)
    assert [shared.new_producer_id(), shared.new_producer_id()] == [5, 6]
    with pytest.raises(NeedsProducerId):
        shared.new_producer_id()


@pytest.mark.parametrize("feature", [0, 1, 2])
def test_records_have_the_form_of_the_feature(feature: int) -> None:
    record = run_at_once(state(feature=feature).record("x", ONE))
    assert record.value is not None
    assert record.value[:2] == bytes((0, min(feature, 1)))


def test_of_what_was_decided_last_more_is_known_than_the_record_says() -> None:
    shared = state()
    record = run_at_once(shared.record("x", ONE))
    assert shared.decode_record(record) == ONE
    assert shared.decode_record(record) == ONE._replace(last_epoch=-1), "but once"


def test_what_was_decided_and_refused_is_not_known() -> None:
    """Nor of another record that looks the same."""
    shared = state()
    record = run_at_once(shared.record("x", ONE))
    assert shared.decode_record(Record(*record)) == ONE._replace(last_epoch=-1)
    run_at_once(shared.record("x", ONE))
    later = run_at_once(shared.record("x", ONE._replace(state=State.EMPTY, producer_epoch=9)))
    assert shared.decode_record(record) == run_at_once(decode(record.value or b""))
    assert shared.decode_record(later) != ONE


def test_a_tombstone_says_nothing() -> None:
    assert state().decode_record(tombstone("x")) is None
