"""What the log does not store is kept for the record decided last."""

from __future__ import annotations

from kavka.log.journal import JournalRecord
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import State, created, initialised
from kavka.txncoord.transaction_records import tombstone
from kavka.wire.steps import run_at_once
from support.transaction_machine import Settings

ONE = initialised(
    created(7, 1_000, 2_000),
    producer_id=7,
    producer_epoch=4,
    last_epoch=3,
    timeout_ms=1_000,
    now_ms=2_000,
)
STORED = ONE._replace(last_epoch=-1)


def new_state() -> TransactionsState:
    return TransactionsState(Settings, lambda: None)


def test_the_record_decided_last_is_decoded_with_all_fields_once() -> None:
    state = new_state()
    record = run_at_once(state.record("x", ONE))
    assert state.decode_record(record) == ONE
    assert state.decode_record(record) == STORED


def test_other_records_are_decoded_as_they_are_stored() -> None:
    state = new_state()
    record = run_at_once(state.record("x", ONE))
    assert state.decode_record(JournalRecord(*record)) == STORED, "an equal one"
    run_at_once(state.record("x", ONE))
    later = run_at_once(state.record("x", ONE._replace(state=State.EMPTY, producer_epoch=9)))
    assert state.decode_record(record) == STORED, "an earlier one"
    assert state.decode_record(later) == STORED._replace(producer_epoch=9)
    assert state.decode_record(tombstone("x")) is None
