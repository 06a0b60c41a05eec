"""How transactions begin: ids and epochs, fencing, and partitions."""

from __future__ import annotations

import pytest

from kavka.txncoord.requests import AddPartitions, NeedsProducerId, ProducerIdAndEpoch
from kavka.txncoord.transaction import EPOCH_GIVEN_MAX, State
from kavka.wire.errors import ErrorCode
from support.journal_kit import START_MS
from support.refusals import refusal
from support.transaction_machine import FIRST_ID, TIMEOUT_MS, TransactionKit

FENCED = ErrorCode.PRODUCER_FENCED
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE


WORN = ProducerIdAndEpoch(FIRST_ID, EPOCH_GIVEN_MAX)


@pytest.fixture
def worn_kit() -> TransactionKit:
    """Where a producer has the last epoch that is given with its id."""
    kit = TransactionKit()
    kit.init()
    kit.put("x", kit.state()._replace(producer_epoch=EPOCH_GIVEN_MAX))
    return kit


# InitProducerId.


def test_a_new_id_gets_a_producer_id_of_its_own() -> None:
    kit = TransactionKit()
    assert kit.init("x") == (FIRST_ID, 0)
    assert kit.init("y") == (FIRST_ID + 1, 0)
    assert kit.state("x").state is State.EMPTY
    assert kit.state("x").timeout_ms == TIMEOUT_MS


def test_each_instance_fences_the_one_before_by_its_epoch() -> None:
    kit = TransactionKit()
    first, second = kit.init(), kit.init()
    assert second == (FIRST_ID, 1)
    assert refusal(kit.add, first) == FENCED
    assert refusal(kit.end, first) == FENCED
    assert refusal(kit.end, first, version=0) == FENCED
    assert refusal(kit.init, "x", first) == FENCED
    assert kit.verify(first, ("t", 0)) == [FENCED]
    kit.add(second)


def test_an_instance_may_have_another_timeout() -> None:
    kit = TransactionKit()
    kit.init()
    kit.init(timeout_ms=5_000)
    assert kit.state().timeout_ms == 5_000


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_bounds(timeout_ms: int) -> None:
    kit = TransactionKit()
    refused = refusal(kit.init, timeout_ms=timeout_ms)
    assert refused == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    kit.init(timeout_ms=900_000)


def test_an_id_has_at_least_a_letter() -> None:
    kit = TransactionKit()
    producer = ProducerIdAndEpoch(1, 0)
    assert refusal(kit.init, "") == ErrorCode.INVALID_REQUEST
    assert refusal(kit.add, producer, transactional_id="") == ErrorCode.INVALID_REQUEST
    assert refusal(kit.end, producer, transactional_id="") == ErrorCode.INVALID_REQUEST
    assert kit.verify(producer, ("t", 0), transactional_id="") == [ErrorCode.INVALID_REQUEST]


def test_an_id_is_not_longer_than_a_key_has_room_for() -> None:
    """Flexible requests have room for more, but Apache Kafka could not read such a record."""
    kit = TransactionKit()
    longest = "é" * (2**14 - 1)
    kit.init(longest)
    assert refusal(kit.init, longest + "xx") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(kit.shard.state.transactions) == {longest}
    kit.move()
    assert set(kit.shard.state.transactions) == {longest}


def test_without_fresh_producer_ids_nothing_happens() -> None:
    kit = TransactionKit()
    kit.is_dry = True
    with pytest.raises(NeedsProducerId):
        kit.init()
    assert not kit.appended
    kit.is_dry = False
    assert kit.init() == (FIRST_ID, 0)


def test_a_transaction_that_is_going_on_is_aborted_first() -> None:
    kit = TransactionKit()
    first = kit.init()
    kit.add(first)
    assert refusal(kit.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = kit.commands
    assert markers == ("x", FIRST_ID, 1, False, (("t", 0),), 2)
    assert refusal(kit.add, first) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(kit.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    kit.mark()
    assert refusal(kit.add, first) == FENCED
    assert kit.init() == (FIRST_ID, 2)


def test_before_the_feature_it_is_aborted_without_a_version() -> None:
    kit = TransactionKit(kavka_transaction_version=1)
    kit.add(kit.init(), version=0)
    assert refusal(kit.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert kit.commands == [("x", FIRST_ID, 1, False, (("t", 0),), 0)]
    kit.mark()
    assert kit.init() == (FIRST_ID, 2)


def test_the_answer_that_it_is_aborted_waits_until_that_is_sure() -> None:
    kit = TransactionKit()
    kit.add(kit.init())
    kit.holds = True
    ticket = kit.init()
    assert not ticket.settled
    assert not kit.commands
    kit.commit()
    assert ticket.failure.code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert kit.commands


# The same from a producer that goes on after an error (KIP-360).


def test_a_producer_goes_on_with_the_next_epoch() -> None:
    kit = TransactionKit()
    assert kit.init("x", kit.init()) == (FIRST_ID, 1)


def test_who_did_not_hear_the_answer_gets_it_again() -> None:
    kit = TransactionKit()
    first = kit.init()
    second = kit.init("x", first)
    assert kit.init("x", first) == second
    assert kit.init("x", second) == (FIRST_ID, 2)
    assert refusal(kit.init, "x", first) == FENCED


def test_nobody_goes_on_after_another_instance_came() -> None:
    kit = TransactionKit()
    first = kit.init()
    kit.init()
    assert refusal(kit.init, "x", first) == FENCED


def test_after_a_move_the_answer_is_not_given_again() -> None:
    kit = TransactionKit()
    first = kit.init()
    second = kit.init("x", first)
    kit.move()
    assert refusal(kit.init, "x", first) == FENCED
    assert kit.init("x", second) == (FIRST_ID, 2)


def test_of_an_id_that_is_forgotten_a_producer_goes_on_as_a_new_one() -> None:
    kit = TransactionKit()
    assert kit.init("x", ProducerIdAndEpoch(77, 5)) == (FIRST_ID, 0)


def test_the_producer_of_another_id_is_fenced() -> None:
    kit = TransactionKit()
    kit.init()
    assert refusal(kit.init, "x", ProducerIdAndEpoch(77, 0)) == FENCED


def test_who_goes_on_in_a_transaction_has_it_aborted_and_then_goes_on() -> None:
    kit = TransactionKit()
    first = kit.init()
    kit.add(first)
    assert refusal(kit.init, "x", first) == ErrorCode.CONCURRENT_TRANSACTIONS
    kit.mark()
    assert kit.init("x", first) == (FIRST_ID, 1)


def test_before_the_feature_who_goes_on_in_a_transaction_is_fenced_by_its_abort() -> None:
    kit = TransactionKit(kavka_transaction_version=0)
    first = kit.init()
    kit.add(first, version=0)
    assert refusal(kit.init, "x", first) == ErrorCode.CONCURRENT_TRANSACTIONS
    kit.mark()
    assert refusal(kit.init, "x", first) == FENCED


# When epochs are used up.


def test_after_the_last_epoch_comes_a_new_producer_id(worn_kit: TransactionKit) -> None:
    assert worn_kit.init() == (FIRST_ID + 1, 0)
    assert refusal(worn_kit.add, WORN) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_who_goes_on_after_the_last_epoch_may_ask_again(worn_kit: TransactionKit) -> None:
    after = worn_kit.init("x", WORN)
    assert after == (FIRST_ID + 1, 0)
    for epoch in (0, 3):
        assert refusal(worn_kit.init, "x", WORN._replace(producer_epoch=epoch)) == FENCED
    assert worn_kit.init("x", WORN) == after


def test_an_instance_that_comes_at_the_last_epoch_fences_who_was_there(
    worn_kit: TransactionKit,
) -> None:
    worn_kit.init()
    assert refusal(worn_kit.init, "x", WORN) == FENCED


def test_without_a_fresh_id_there_is_none_after_the_last_epoch(worn_kit: TransactionKit) -> None:
    worn_kit.is_dry = True
    with pytest.raises(NeedsProducerId):
        worn_kit.init()


# Partitions.


def test_the_first_partition_begins_a_transaction() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.now_ms += 7
    assert kit.add(producer, ("t", 0)) is None
    kit.now_ms += 7
    kit.add(producer, ("u", 1), ("t", 0))
    one = kit.state()
    assert one.state is State.ONGOING
    assert one.partitions == {("t", 0), ("u", 1)}
    assert one.started_ms == START_MS + 7
    assert one.updated_ms == START_MS + 14


def test_partitions_that_are_in_it_are_not_written_again() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.add(producer, ("t", 0), ("t", 1))
    written = len(kit.appended)
    kit.add(producer, ("t", 1))
    assert len(kit.appended) == written


def test_a_transaction_may_begin_without_partitions() -> None:
    """As in Apache Kafka; it has no markers either."""
    kit = TransactionKit()
    producer = kit.init()
    kit.answer(lambda *asked: kit.shard.add_partitions(AddPartitions("x", FIRST_ID, 0, ()), *asked))
    assert kit.state().state is State.ONGOING
    kit.end(producer)
    assert kit.commands == [("x", FIRST_ID, 1, True, (), 2)]


def test_of_those_that_wait_to_be_committed_it_is_told_when_they_are() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.holds = True
    first, second = kit.add(producer), kit.add(producer)
    assert not first.settled and not second.settled
    kit.commit()
    assert first.answer is None and second.settled


def test_partitions_are_told_one_by_one() -> None:
    kit = TransactionKit()
    producer = kit.init()
    assert kit.verify(producer, ("t", 0)) == [ABORTABLE]
    kit.add(producer, ("t", 0))
    assert kit.verify(producer, ("t", 1), ("t", 0)) == [ABORTABLE, ErrorCode.NONE]
    kit.end(producer)
    after = ProducerIdAndEpoch(FIRST_ID, 1)
    assert kit.verify(after, ("t", 0)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    kit.mark()
    assert kit.verify(after, ("t", 0)) == [ABORTABLE]


@pytest.mark.parametrize("one", ["x", "unknown"])
def test_partitions_are_only_for_the_producer_of_an_id(one: str) -> None:
    kit = TransactionKit()
    kit.init()
    stranger = ProducerIdAndEpoch(77, 0)
    wrong = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(kit.add, stranger, transactional_id=one) == wrong
    assert refusal(kit.end, stranger, transactional_id=one) == wrong
    assert refusal(kit.end, stranger, transactional_id=one, version=0) == wrong
    assert kit.verify(stranger, ("t", 0), ("t", 1), transactional_id=one) == [wrong, wrong]


def test_there_are_no_new_ones_until_the_markers_are_written() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.add(producer, version=0)
    kit.end(producer, version=0)
    assert refusal(kit.add, producer) == ErrorCode.CONCURRENT_TRANSACTIONS
    kit.mark()
    kit.add(producer)


def test_what_is_refused_has_not_been() -> None:
    kit = TransactionKit()
    producer = kit.init()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(kit.add, producer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kit.state().state is State.EMPTY
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(kit.init) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.add(producer)
