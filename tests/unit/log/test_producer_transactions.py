"""Transactions of producers: the rules of Apache Kafka's ProducerAppendInfo, which
tests/broker/test_transaction_rules.py asks Apache Kafka itself about."""

from __future__ import annotations

import pytest

from kavka.log.producer_entry import AppendedBatch
from kavka.log.producer_state import ProducerStates
from kavka.log.txn_guards import NOT_NEEDED
from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker
from kavka.wire.errors import ApiError, ErrorCode
from support.producers import (
    ABORT,
    COMMIT,
    asked,
    begun,
    header,
    load,
    marker_of,
    refused,
    snapshot,
    transactional,
)


def test_a_transaction_begins_with_its_first_batch() -> None:
    states = begun()
    states.update(transactional(2), 7)
    entry = states.get(9)
    assert entry is not None and entry.txn_first_offset == 5
    assert states.transactions.first_unstable(100) == 5


def test_the_first_batch_needs_a_guard_but_a_copy_does_not() -> None:
    states = ProducerStates()
    assert refused(states, transactional(0)) == ErrorCode.INVALID_TXN_STATE
    guard = asked(states, transactional(0))
    assert guard is not None and states.check(transactional(0), guard) is None
    assert states.check(transactional(0), NOT_NEEDED) is None
    states = begun()
    assert asked(states, transactional(2)) is None, "it is going on"
    assert states.check(transactional(2)) is None
    assert states.check(transactional(0, 2)) == AppendedBatch(0, 1, 6, 1, 5)
    assert refused(states, transactional(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_guard_admits_the_lowest_pending_sequence_only() -> None:
    states = ProducerStates()
    guard = states.verifications.begin(9, 4, 0, 0)
    assert states.check(transactional(4), guard) is None
    with pytest.raises(ApiError) as error:
        states.check(transactional(5), guard)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_within_a_transaction_all_is_transactional() -> None:
    states = begun()
    assert refused(states, header(2)) == ErrorCode.INVALID_TXN_STATE
    assert refused(states, header(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, header(0, epoch=1)) == ErrorCode.INVALID_TXN_STATE
    states.end(marker_of(), COMMIT, 7)
    assert states.check(header(2)) is None


def test_offsets_of_a_group_have_no_sequence() -> None:
    states = ProducerStates()
    offsets = transactional(-1, 2)
    assert refused(states, offsets) == ErrorCode.INVALID_TXN_STATE
    assert states.check(offsets, NOT_NEEDED) is None
    states.update(offsets, 1)
    assert states.check(offsets) is None, "another, not a copy"
    assert states.encode() == snapshot((9, 0, -1, 1, 1, 5, -1, 0))
    again = ProducerStates()
    load(again, states.encode())
    assert again.check(offsets) is None
    assert refused(again, transactional(-1, epoch=-1)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("marker", "expected"), [(ABORT, AbortedTxn(9, 5, 8, 9)), (COMMIT, None)])
def test_a_marker_ends_the_transaction(marker: Marker, expected: AbortedTxn | None) -> None:
    states = begun()
    guard = states.verifications.begin(9, 2, 0, 0)
    assert states.aborted_by(9, marker, 8) == expected
    states.check_marker(marker_of(), marker)
    states.end(marker_of(), marker, 8)
    assert states.encode() == snapshot((9, 0, 1, 6, 1, 1000, 3, -1))
    assert states.transactions.first_unstable(9) is None
    assert states.aborted_by(9, marker, 9) is None
    assert not states.verifications.holds(9, guard)
    assert states.check(transactional(2), NOT_NEEDED) is None, "the sequence goes on"


def test_a_marker_of_a_new_epoch_restarts_the_sequence() -> None:
    """Transactions of version 2 raise the epoch with each end (KIP-890)."""
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    assert states.encode() == snapshot((9, 1, -1, -1, 0, 1000, 3, -1))
    assert states.check(transactional(0, epoch=1), NOT_NEEDED) is None
    with pytest.raises(ApiError) as error:
        states.check(transactional(1, epoch=1), NOT_NEEDED)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_old_markers_are_refused() -> None:
    states = begun()
    states.check_marker(marker_of(), Marker(True, -1, 0))
    states.end(marker_of(epoch=2), COMMIT, 7)
    refusals = {
        (1, 9): ErrorCode.INVALID_PRODUCER_EPOCH,
        (2, 2): ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
    for (epoch, coordinator_epoch), code in refusals.items():
        with pytest.raises(ApiError) as error:
            states.check_marker(marker_of(epoch), Marker(True, coordinator_epoch, 0))
        assert error.value.code == code
    states.check_marker(marker_of(2), Marker(True, 3, 0))
    states.check_marker(marker_of(0, producer_id=10), Marker(True, 0, 0))


def test_a_newer_epoch_can_not_continue_an_older_epoch_s_transaction() -> None:
    """That is as good as over: the coordinator has to say that there is another."""
    states = begun()
    newer = transactional(0, epoch=1)
    assert refused(states, newer) == ErrorCode.INVALID_TXN_STATE
    guard = asked(states, newer)
    assert guard is not None and states.check(newer, guard) is None
    with pytest.raises(ApiError) as error:
        asked(begun(), transactional(2, epoch=-1))
    assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_old_epoch_is_rejected_with_or_without_a_guard() -> None:
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    assert refused(states, transactional(2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as error:
        states.check(transactional(2), NOT_NEEDED)
    assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


# --- each transaction with an epoch of its own (KIP-890), which only Apache Kafka 4 knows


@pytest.mark.parametrize(
    ("epoch", "is_open", "code"),
    [
        (2, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, False, None),
        (4, True, None),
        (4, False, None),
        (9, True, None),
    ],
)
def test_markers_have_a_newer_epoch_unless_they_are_retries(
    epoch: int, is_open: bool, code: ErrorCode | None
) -> None:
    states = ProducerStates()
    states.update(transactional(0, epoch=3), 0)
    if not is_open:
        states.end(marker_of(epoch=3), COMMIT, 1)
    try:
        states.check_marker(marker_of(epoch), COMMIT, 2)
        found = None
    except ApiError as refusal:
        found = refusal.code
    assert found == code


def test_there_is_no_epoch_above_the_highest() -> None:
    states = ProducerStates()
    states.update(transactional(0, epoch=0x7FFF), 0)
    states.check_marker(marker_of(0x7FFF), COMMIT, 2)


def test_an_unknown_producer_starts_with_0() -> None:
    states = ProducerStates()
    later = transactional(4)
    with pytest.raises(ApiError) as error:
        states.check(later, asked(states, later, v2=True))
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first = transactional(0)
    assert states.check(first, asked(states, first, v2=True)) is None
    older = ProducerStates()
    assert older.check(later, asked(older, later)) is None


def test_after_a_marker_with_a_new_epoch_sequences_begin_with_0() -> None:
    states = begun()
    states.end(marker_of(epoch=1), COMMIT, 7)
    for sequence, code in ((1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (0, None)):
        batch = transactional(sequence, epoch=1)
        guard = asked(states, batch, v2=True)
        try:
            states.check(batch, guard)
            assert code is None
        except ApiError as refusal:
            assert refusal.code == code


def test_a_late_marker_keeps_the_guard_of_the_next_transaction() -> None:
    """Its epoch is the one that the next transaction has begun with already."""
    for v2, stays in ((True, True), (False, False)):
        states = begun()
        following = transactional(0, epoch=1)
        guard = asked(states, following, v2=v2)
        states.end(marker_of(epoch=1), COMMIT, 7)
        assert states.verifications.holds(9, guard) is stays
        states.end(marker_of(epoch=2), COMMIT, 8)
        assert not states.verifications.holds(9, guard)


def test_a_snapshot_brings_transactions_back() -> None:
    states = ProducerStates()
    entries = [(9, 2, 17, 14, 4, 78, 6, 100), (10, 0, 0, 60, 0, 70, -1, 60), (11, *[-1] * 7)]
    load(states, snapshot(*entries))
    assert states.transactions.first_unstable(200) == 60
    assert states.oldest_transaction_ms == 70
    states.end(marker_of(producer_id=10), COMMIT, 120)
    assert states.transactions.first_unstable(200) == 100
    assert states.oldest_transaction_ms == 78
    load(states, snapshot())
    assert states.transactions.settled and states.oldest_transaction_ms == -1
