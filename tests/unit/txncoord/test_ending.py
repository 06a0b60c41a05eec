"""How transactions end: by whom, with which epochs, and what becomes of their markers."""

from __future__ import annotations

import pytest

from kavka.txncoord.ending import COMPLETION_RETRY_MS
from kavka.txncoord.requests import NeedsProducerId, ProducerIdAndEpoch
from kavka.txncoord.transaction import EPOCH_GIVEN_MAX, NO_TIMEOUT_MS, State
from kavka.wire.errors import ErrorCode
from support.journal_kit import COMMIT_MS, START_MS
from support.refusals import refusal
from support.transaction_machine import FIRST_ID, TIMEOUT_MS, TransactionKit

FENCED = ErrorCode.PRODUCER_FENCED
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG = ErrorCode.INVALID_TXN_STATE
LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE
CHECK_MS = 10_000
T0 = (("t", 0),)


def in_state(state: State, version: int) -> tuple[TransactionKit, ProducerIdAndEpoch]:
    """An id in a state that clients of a version brought about, and its producer's last epoch."""
    kit = TransactionKit()
    producer = kit.init()
    if state is State.EMPTY:
        return kit, producer
    kit.add(producer, version=version)
    if state is State.ONGOING:
        return kit, producer
    committed = state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    kit.end(producer, committed=committed, version=version)
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        kit.mark()
    assert kit.state().state is state
    return kit, producer


# Clients of the first protocol.


def test_an_old_client_keeps_its_epoch() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.add(producer, ("t", 1), ("t", 0), version=0)
    assert kit.end(producer, version=0) == (-1, -1)
    assert kit.commands == [("x", FIRST_ID, 0, True, (("t", 0), ("t", 1)), 0)]
    assert kit.state().state is State.PREPARE_COMMIT
    kit.mark()
    assert kit.state().state is State.COMPLETE_COMMIT
    assert kit.state().partitions == frozenset()
    kit.add(producer, version=0)
    kit.end(producer, committed=False, version=0)
    kit.mark()
    assert kit.state().state is State.COMPLETE_ABORT


OLD = {
    (State.EMPTY, True): WRONG,
    (State.EMPTY, False): WRONG,
    (State.PREPARE_COMMIT, True): WAIT,
    (State.PREPARE_COMMIT, False): WAIT,
    (State.PREPARE_ABORT, True): WAIT,
    (State.PREPARE_ABORT, False): WAIT,
    (State.COMPLETE_COMMIT, False): WRONG,
    (State.COMPLETE_ABORT, True): WRONG,
}


@pytest.mark.parametrize("state, committed", OLD)
def test_an_old_client_is_refused_what_does_not_fit(state: State, committed: bool) -> None:
    kit, producer = in_state(state, version=0)
    assert refusal(kit.end, producer, committed=committed, version=0) == OLD[state, committed]


@pytest.mark.parametrize(
    "state, committed", [(State.COMPLETE_COMMIT, True), (State.COMPLETE_ABORT, False)]
)
def test_an_old_client_may_ask_again(state: State, committed: bool) -> None:
    kit, producer = in_state(state, version=0)
    written = len(kit.appended)
    assert kit.end(producer, committed=committed, version=0) == (-1, -1)
    assert len(kit.appended) == written


# Clients of the second protocol (KIP-890).


@pytest.mark.parametrize("committed", [True, False])
def test_each_transaction_ends_with_a_new_epoch(committed: bool) -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.add(producer)
    assert kit.end(producer, committed=committed) == (FIRST_ID, 1)
    assert kit.commands == [("x", FIRST_ID, 1, committed, T0, 2)]
    kit.mark()
    assert kit.state().producer_epoch == 1
    assert refusal(kit.add, producer) == FENCED
    assert kit.transact(ProducerIdAndEpoch(FIRST_ID, 1)) == (FIRST_ID, 2)


AGAIN = {
    (State.PREPARE_COMMIT, True): WAIT,
    (State.PREPARE_COMMIT, False): WAIT,
    (State.PREPARE_ABORT, True): WAIT,
    (State.PREPARE_ABORT, False): WAIT,
    (State.COMPLETE_COMMIT, True): None,
    (State.COMPLETE_COMMIT, False): WRONG,
    (State.COMPLETE_ABORT, True): WRONG,
    (State.COMPLETE_ABORT, False): None,
}


@pytest.mark.parametrize("state, committed", AGAIN)
def test_the_epoch_before_tells_that_it_is_asked_again(state: State, committed: bool) -> None:
    kit, producer = in_state(state, version=2)
    written = len(kit.appended)
    expected = AGAIN[state, committed]
    if expected is None:
        assert kit.end(producer, committed=committed) == (FIRST_ID, 1)
    else:
        assert refusal(kit.end, producer, committed=committed) == expected
    assert len(kit.appended) == written


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_an_abort_of_nothing_has_a_new_epoch_too(state: State) -> None:
    kit, before = in_state(state, version=2)
    producer = ProducerIdAndEpoch(FIRST_ID, kit.state().producer_epoch)
    assert refusal(kit.end, producer) == WRONG
    kit.now_ms += 9
    after = kit.end(producer, committed=False)
    assert after == (FIRST_ID, producer.producer_epoch + 1)
    assert kit.commands == [("x", *after, False, (), 2)]
    assert kit.state().started_ms == START_MS + 9
    kit.mark()
    assert kit.state().state is State.COMPLETE_ABORT


@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING])
@pytest.mark.parametrize("committed", [True, False])
def test_the_epoch_before_is_fenced_where_nothing_has_ended(state: State, committed: bool) -> None:
    kit, _ = in_state(state, version=2)
    if state is State.EMPTY:
        kit.init()
    before = ProducerIdAndEpoch(FIRST_ID, kit.state().producer_epoch - 1)
    assert refusal(kit.end, before, committed=committed) == FENCED


@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.ONGOING])
@pytest.mark.parametrize("by", [-2, 1])
def test_other_epochs_are_fenced(state: State, by: int) -> None:
    kit, _ = in_state(state, version=2)
    other = ProducerIdAndEpoch(FIRST_ID, kit.state().producer_epoch + by)
    assert refusal(kit.end, other) == FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize("committed", [True, False])
def test_the_new_epoch_waits_until_the_markers_are_written(state: State, committed: bool) -> None:
    """The producer was told it at once: it goes on, and must not stop for being early."""
    kit, _ = in_state(state, version=2)
    after = ProducerIdAndEpoch(FIRST_ID, 1)
    assert refusal(kit.end, after, committed=committed) == WAIT
    assert refusal(kit.add, after) == refusal(kit.init, "x", after) == WAIT


def test_so_does_a_new_producer_id() -> None:
    """KIP-890: the client has it, and the coordinator only once the transaction is complete."""
    kit, producer = worn()
    kit.add(producer)
    after = kit.end(producer)
    assert after.producer_id != producer.producer_id
    for one in (producer, after):
        assert refusal(kit.add, one) == WAIT
        assert refusal(kit.end, one) == refusal(kit.end, one, committed=False) == WAIT
        assert refusal(kit.init, "x", one) == WAIT
    assert kit.verify(after, ("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    kit.mark()
    assert kit.transact(after) == (after.producer_id, 1)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_an_old_client_s_epoch_is_looked_at_first(state: State) -> None:
    kit, producer = in_state(state, version=0)
    assert refusal(kit.end, producer._replace(producer_epoch=9), version=0) == FENCED
    wrong = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(kit.end, producer._replace(producer_id=77), version=0) == wrong


# When epochs are used up.


def worn() -> tuple[TransactionKit, ProducerIdAndEpoch]:
    kit = TransactionKit()
    kit.init()
    kit.put("x", kit.state()._replace(producer_epoch=EPOCH_GIVEN_MAX))
    return kit, ProducerIdAndEpoch(FIRST_ID, EPOCH_GIVEN_MAX)


def test_with_the_last_epoch_a_transaction_ends_with_a_new_producer_id() -> None:
    kit, producer = worn()
    kit.add(producer)
    after = kit.end(producer)
    assert after == (FIRST_ID + 1, 0)
    assert kit.commands == [("x", FIRST_ID, EPOCH_GIVEN_MAX + 1, True, T0, 2)]
    kit.move()
    kit.mark()
    assert kit.end(producer) == after, "asked again"
    assert refusal(kit.end, producer, committed=False) == WRONG
    older = producer._replace(producer_epoch=3)
    assert refusal(kit.end, older) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert kit.transact(after) == (FIRST_ID + 1, 1)
    assert refusal(kit.end, producer) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_old_client_goes_on_with_the_last_epoch() -> None:
    kit, producer = worn()
    kit.transact(producer, version=0)
    kit.transact(producer, version=0)
    assert kit.init() == (FIRST_ID + 1, 0)


def test_without_a_fresh_id_it_does_not_end() -> None:
    kit, producer = worn()
    kit.add(producer)
    kit.is_dry = True
    with pytest.raises(NeedsProducerId):
        kit.end(producer)
    assert kit.state().state is State.ONGOING


@pytest.mark.parametrize("feature", [0, 2])
def test_a_producer_with_the_last_epoch_can_be_fenced(feature: int) -> None:
    kit, producer = worn()
    kit.settings.kavka_transaction_version = feature
    kit.add(producer)
    assert refusal(kit.init) == WAIT
    kit.mark()
    assert refusal(kit.end, producer) in (FENCED, WRONG)
    after = kit.init()
    assert after == (FIRST_ID + 1, 1 if feature else 0)


# Markers.


def test_markers_are_asked_for_when_it_is_sure_how_it_ends() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.holds = True
    ticket = kit.end(producer)
    assert not kit.commands and not ticket.settled
    kit.commit()
    assert ticket.answer == (FIRST_ID, 1)
    assert len(kit.commands) == 1


def test_they_are_asked_for_even_if_the_producer_was_told_that_it_took_too_long() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.holds = True
    ticket = kit.end(producer)
    kit.advance(COMMIT_MS)
    assert ticket.failure.code == LATE
    kit.advance(3 * COMMIT_MS)
    assert not kit.commands
    kit.holds = False
    kit.commit()
    (markers,) = kit.commands
    assert markers.committed
    assert refusal(kit.end, producer) == WAIT
    kit.mark()
    assert kit.end(producer) == (FIRST_ID, 1)
    assert not kit.commands


def test_an_end_that_is_refused_has_not_been() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(kit.end, producer) == LATE
    assert not kit.commands
    assert kit.end(producer, committed=False) == (FIRST_ID, 1)
    assert len(kit.commands) == 1
    kit.mark()
    assert kit.state().state is State.COMPLETE_ABORT


@pytest.mark.parametrize("committed", [True, False])
def test_who_takes_over_has_the_markers_written(committed: bool) -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.end(producer, committed=committed)
    (asked,) = kit.commands
    kit.move()
    assert kit.commands == [asked]
    kit.mark()
    assert kit.end(producer, committed=committed) == (FIRST_ID, 1)


def test_who_takes_over_waits_until_it_is_sure() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.holds = True
    kit.end(producer)
    kit.begin()
    kit.advance(2 * COMMIT_MS)
    assert not kit.commands
    kit.commit()
    assert len(kit.commands) == 1


def test_markers_that_are_told_twice_end_no_other_transaction() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.add(producer, version=0)
    kit.end(producer, version=0)
    (first,) = kit.commands
    kit.mark(first)
    kit.add(producer, version=0)
    kit.end(producer, version=0)
    assert kit.commands == [first], "they are equal, but not the same"
    assert kit.mark(first) is None
    assert kit.state().state is State.PREPARE_COMMIT


def test_markers_of_the_coordinator_before_count_for_nothing() -> None:
    kit, producer = in_state(State.PREPARE_COMMIT, version=2)
    (before,) = kit.commands
    kit.move()
    kit.mark(before)
    assert kit.state().state is State.PREPARE_COMMIT
    kit.mark()
    assert kit.state().state is State.COMPLETE_COMMIT


def test_what_is_complete_is_written_later_if_it_is_refused() -> None:
    kit, producer = in_state(State.PREPARE_COMMIT, version=2)
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert kit.shard.uncompleted == 0
    assert kit.mark() is None
    kit.advance(2 * COMPLETION_RETRY_MS - 1)
    assert kit.state().state is State.PREPARE_COMMIT
    assert kit.shard.uncompleted == 1
    kit.advance(1)
    assert kit.state().state is State.COMPLETE_COMMIT
    assert kit.shard.uncompleted == 0
    assert not kit.port.failures and not kit.commands


def test_what_is_complete_is_not_written_again_because_it_is_committed_late() -> None:
    kit, producer = in_state(State.PREPARE_COMMIT, version=2)
    kit.holds = True
    ticket = kit.mark()
    kit.advance(COMMIT_MS)
    assert ticket.settled and ticket.answer is None
    written = len(kit.appended)
    kit.advance(COMMIT_MS)
    assert len(kit.appended) == written


# Transactions that take too long.


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.advance(TIMEOUT_MS)
    assert not kit.commands
    kit.advance(CHECK_MS)
    assert kit.commands == [("x", FIRST_ID, 1, False, T0, 2)]
    assert kit.state().updated_ms == START_MS + TIMEOUT_MS + CHECK_MS
    assert refusal(kit.end, producer) == refusal(kit.add, producer) == WAIT
    kit.mark()
    assert refusal(kit.end, producer) == WRONG
    assert refusal(kit.add, producer) == FENCED
    kit.advance(10 * TIMEOUT_MS)
    assert not kit.commands


def test_more_partitions_make_it_last_no_longer() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.advance(TIMEOUT_MS - 1)
    kit.add(producer, ("t", 1))
    kit.advance(CHECK_MS + 1)
    assert len(kit.commands) == 1


def test_one_that_ends_in_time_is_left_alone() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.advance(TIMEOUT_MS - 1)
    after = kit.end(producer)
    kit.mark()
    kit.add(after)
    kit.advance(TIMEOUT_MS)
    assert kit.state().state is State.ONGOING


def test_an_abort_that_is_refused_comes_at_the_next_look() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    kit.advance(TIMEOUT_MS + CHECK_MS)
    assert not kit.port.failures and not kit.commands
    kit.advance(CHECK_MS)
    assert len(kit.commands) == 1


def test_an_abort_that_needs_a_producer_id_asks_for_some() -> None:
    kit, producer = worn()
    kit.add(producer)
    kit.is_dry = True
    kit.advance(TIMEOUT_MS + CHECK_MS)
    assert kit.reservations == 1
    assert kit.state().state is State.ONGOING
    kit.is_dry = False
    kit.advance(CHECK_MS)
    assert kit.reservations == 1
    assert kit.commands == [("x", FIRST_ID, EPOCH_GIVEN_MAX + 1, False, T0, 2)]


def test_who_takes_over_aborts_what_took_too_long_at_the_next_look() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.now_ms += 10 * TIMEOUT_MS
    kit.move()
    assert not kit.commands
    kit.advance(CHECK_MS)
    assert len(kit.commands) == 1


def test_one_without_a_timeout_lasts() -> None:
    kit, producer = in_state(State.ONGOING, version=2)
    kit.put("x", kit.state()._replace(timeout_ms=NO_TIMEOUT_MS))
    kit.advance(NO_TIMEOUT_MS + CHECK_MS)
    assert kit.state().state is State.ONGOING
