"""Which transactions compaction knows to be aborted, and whose markers may go."""

from __future__ import annotations

from kavka.compat_tests.raw.codec.batches import build, patch
from kavka.log.compaction.transactions import CleanedTransactions
from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker
from kavka.wire.record_batches import CONTROL, TRANSACTIONAL, BatchHeader, read_header

COMMIT, ABORT = Marker(True, 0, 0), Marker(False, 0, 0)


def data(producer: int, offset: int, *, transactional: bool = True) -> BatchHeader:
    attributes = TRANSACTIONAL if transactional else 0
    batch = patch(build(), base_offset=offset, producer_id=producer, attributes=attributes)
    return read_header(batch)


def control(producer: int, offset: int, *, count: int = 1) -> BatchHeader:
    batch = patch(
        build(),
        base_offset=offset,
        producer_id=producer,
        attributes=TRANSACTIONAL | CONTROL,
        record_count=count,
        last_offset_delta=0,
    )
    return read_header(batch)


def aborted(producer: int, first: int, last: int) -> AbortedTxn:
    return AbortedTxn(producer, first, last, first)


def test_a_transaction_with_data_keeps_its_marker() -> None:
    seen = CleanedTransactions([])
    assert not seen.is_aborted_batch(data(1, 0))
    assert seen.on_control_batch(control(1, 3), COMMIT) == (False, None)
    assert seen.on_control_batch(control(1, 4), COMMIT) == (True, None), "the next one is empty"


def test_aborted_data_is_dropped_and_its_marker_kept() -> None:
    entry = aborted(1, 10, 20)
    seen = CleanedTransactions([entry])
    assert not seen.is_aborted_batch(data(1, 0)), "of a transaction before"
    assert seen.on_control_batch(control(1, 5), COMMIT) == (False, None)
    assert seen.is_aborted_batch(data(1, 10))
    assert seen.is_aborted_batch(data(1, 15))
    assert seen.on_control_batch(control(1, 20), ABORT) == (False, entry)
    assert not seen.is_aborted_batch(data(1, 21)), "it is over"


def test_a_marker_without_aborted_data_may_be_removed() -> None:
    seen = CleanedTransactions([aborted(1, 10, 20)])
    assert seen.on_control_batch(control(1, 20), ABORT) == (True, None)
    assert seen.on_control_batch(control(2, 21), ABORT) == (True, None), (
        "it is in no index any more"
    )


def test_transactions_of_producers_are_independent() -> None:
    first, second = aborted(1, 0, 30), aborted(2, 3, 40)
    seen = CleanedTransactions([second, first])
    assert seen.is_aborted_batch(data(1, 0))
    assert seen.is_aborted_batch(data(2, 3))
    assert not seen.is_aborted_batch(data(3, 6))
    assert not seen.is_aborted_batch(data(1, 9, transactional=False)), "plain records are in none"
    assert seen.on_control_batch(control(1, 30), ABORT) == (False, first)
    assert seen.on_control_batch(control(3, 31), COMMIT) == (False, None)
    assert seen.on_control_batch(control(2, 40), ABORT) == (False, second)


def test_control_batches_of_other_kinds_stay_and_emptied_ones_may_go() -> None:
    seen = CleanedTransactions([])
    assert seen.on_control_batch(control(1, 0), None) == (False, None)
    assert seen.on_control_batch(control(1, 1, count=0), None) == (True, None)
