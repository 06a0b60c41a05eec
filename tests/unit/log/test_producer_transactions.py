"""Transactions of producers: the rules of Apache Kafka's ProducerAppendInfo, which
tests/broker/test_transaction_rules.py asks Apache Kafka itself about."""

from __future__ import annotations

import pytest

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
    load,
    marker_of,
    snapshot,
    transactional,
)


def test_a_guard_admits_the_lowest_pending_sequence_only() -> None:
    states = ProducerStates()
    guard = states.verifications.begin(9, 4, 0, 0)
    assert states.check(transactional(4), guard) is None
    with pytest.raises(ApiError) as error:
        states.check(transactional(5), guard)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


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
    except ApiError as error:
        found = error.code
    assert found == code


def test_there_is_no_epoch_above_the_highest() -> None:
    states = ProducerStates()
    states.update(transactional(0, epoch=0x7FFF), 0)
    states.check_marker(marker_of(0x7FFF), COMMIT, 2)


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
    assert states.transactions.all_decided and states.oldest_transaction_ms == -1
