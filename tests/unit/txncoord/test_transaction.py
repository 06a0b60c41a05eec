"""Which moves are legal, and what they change."""

from __future__ import annotations

from itertools import product

import pytest

from kavka.txncoord.transaction import (
    COMPLETED,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    PREPARED,
    SETTLED,
    TOPIC_COST,
    State,
    Transaction,
    completed,
    created,
    fenced,
    initialised,
    markers_of,
    prepared,
    producer_after,
    with_partitions,
)
from kavka.wire.steps import QUICK_ITEMS_A_STEP, Steps, run_at_once

T = [("t", 0)]
NEW = created(7, 60_000, 1_000)

LEGAL = {
    ("EMPTY", "EMPTY"),
    ("COMPLETE_COMMIT", "EMPTY"),
    ("COMPLETE_ABORT", "EMPTY"),
    ("EMPTY", "ONGOING"),
    ("ONGOING", "ONGOING"),
    ("COMPLETE_COMMIT", "ONGOING"),
    ("COMPLETE_ABORT", "ONGOING"),
    ("ONGOING", "PREPARE_COMMIT"),
    ("EMPTY", "PREPARE_ABORT"),
    ("ONGOING", "PREPARE_ABORT"),
    ("COMPLETE_COMMIT", "PREPARE_ABORT"),
    ("COMPLETE_ABORT", "PREPARE_ABORT"),
    ("PREPARE_COMMIT", "COMPLETE_COMMIT"),
    ("PREPARE_ABORT", "COMPLETE_ABORT"),
}
"""From and to, as Apache Kafka's table of states has them (TransactionState of 4.3.1), without
the two states that it never writes."""


@pytest.mark.parametrize("begin, end", list(product(State, State)))
def test_only_legal_moves_can_be_made(begin: State, end: State) -> None:
    one = NEW._replace(state=begin)
    if (begin.name, end.name) in LEGAL:
        assert one.transition(end).state is end
    else:
        with pytest.raises(AssertionError):
            one.transition(end)


def test_each_move_remembers_the_producer_id_before() -> None:
    one = initialised(
        NEW, producer_id=8, producer_epoch=0, last_epoch=4, timeout_ms=5, now_ms=2_000
    )
    assert (one.producer_id, one.previous_producer_id) == (8, 7)
    assert with_partitions(one, T, 0, 3_000).previous_producer_id == 8


def ongoing(epoch: int = 3, version: int = 0) -> Transaction:
    one = NEW._replace(producer_epoch=epoch, last_epoch=1)
    return with_partitions(one, T, version, 2_000)


def test_a_plain_end_leaves_the_epoch() -> None:
    one = prepared(ongoing(), committed=True, version=0, next_producer_id=-1, now_ms=3_000)
    assert (one.producer_epoch, one.last_epoch) == (3, 1)
    assert (one.started_ms, one.updated_ms) == (2_000, 3_000)
    assert run_at_once(markers_of("x", one)) == ("x", 7, 3, True, (("t", 0),), 0)
    after = completed(one, 4_000)
    assert after.state is State.COMPLETE_COMMIT
    assert (after.partitions, after.started_ms, after.updated_ms) == (frozenset(), 2_000, 4_000)
    assert producer_after(one) == (7, 3) == (after.producer_id, after.producer_epoch)


def test_an_end_with_a_new_epoch() -> None:
    one = prepared(ongoing(), committed=False, version=2, next_producer_id=-1, now_ms=3_000)
    assert (one.producer_epoch, one.last_epoch) == (4, 3)
    assert producer_after(one) == (7, 4)
    assert completed(one, 4_000).state is State.COMPLETE_ABORT


def test_an_end_with_a_new_producer_id() -> None:
    one = prepared(
        ongoing(EPOCH_MAX - 1), committed=True, version=2, next_producer_id=9, now_ms=3_000
    )
    assert (one.producer_id, one.producer_epoch) == (7, EPOCH_MAX)
    assert producer_after(one) == (9, 0)
    after = completed(one, 4_000)
    assert (after.producer_id, after.producer_epoch) == (9, 0)
    assert (after.previous_producer_id, after.next_producer_id) == (7, -1)
    assert after.last_epoch == EPOCH_MAX - 1


def test_the_highest_epoch_is_not_exceeded() -> None:
    assert fenced(ongoing(EPOCH_MAX)).producer_epoch == EPOCH_MAX
    one = prepared(ongoing(EPOCH_MAX), committed=False, version=2, next_producer_id=9, now_ms=3_000)
    assert one.producer_epoch == EPOCH_MAX


def test_who_is_fenced_can_not_ask_again() -> None:
    assert fenced(ongoing())[4:6] == (4, -1)


@pytest.mark.parametrize("epoch, expected", [(0, False), (32_765, False), (32_766, True)])
def test_the_last_epoch_that_is_given(epoch: int, expected: bool) -> None:
    assert NEW._replace(producer_epoch=epoch).is_epoch_exhausted is expected


def test_only_what_goes_on_times_out() -> None:
    assert ongoing().times_out_ms == 62_000
    assert with_partitions(ongoing(), T, 0, 50_000).times_out_ms == 62_000
    assert ongoing()._replace(timeout_ms=NO_TIMEOUT_MS).times_out_ms is None
    for state in (*SETTLED, *PREPARED):
        assert ongoing()._replace(state=state).times_out_ms is None


def test_what_states_have_in_common() -> None:
    assert {*SETTLED, *PREPARED, State.ONGOING} == set(State)
    assert set(COMPLETED) < set(SETTLED)


SHAPES = pytest.mark.parametrize(
    ("topics", "partitions"),
    [(1, 2), (1, 3 * QUICK_ITEMS_A_STEP), (3 * QUICK_ITEMS_A_STEP, 1), (50, 90)],
)


@SHAPES
def test_many_partitions_are_in_order(topics: int, partitions: int) -> None:
    expected = [(f"t{number:05d}", list(range(partitions))) for number in range(topics)]
    places = [(topic, index) for topic, indexes in expected for index in indexes]
    one = with_partitions(NEW._replace(producer_epoch=0), reversed(places), 2, 2_000)
    assert run_at_once(one.by_topic()) == expected
    ended = prepared(one, committed=True, version=2, next_producer_id=-1, now_ms=3_000)
    assert run_at_once(markers_of("x", ended)).partitions == tuple(places)
    pauses, of_topics = len(places) // QUICK_ITEMS_A_STEP, TOPIC_COST * topics // QUICK_ITEMS_A_STEP
    assert pauses <= paused(one.by_topic()) <= 3 * pauses + of_topics
    assert 2 * pauses <= paused(markers_of("x", ended)) <= 4 * pauses + of_topics


def paused(work: Steps[object]) -> int:
    """How often it pauses."""
    return sum(1 for _ in work)
