"""Which transitions are legal, and partitions in order; what transitions change:
`tests/scenarios/transactions`."""

from __future__ import annotations

from itertools import product

import pytest

from kavka.txncoord.listing import STATE_NAMES
from kavka.txncoord.transaction import (
    COMPLETED,
    PREPARED,
    SETTLED,
    TOPIC_COST,
    State,
    created,
    markers_of,
    prepared,
    with_partitions,
)
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, Steps, run_at_once

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
def test_only_legal_transitions_can_be_made(begin: State, end: State) -> None:
    txn = NEW._replace(state=begin)
    if (begin.name, end.name) in LEGAL:
        assert txn.transition(end).state is end
    else:
        with pytest.raises(AssertionError):
            txn.transition(end)


def test_the_groups_of_states() -> None:
    assert {*SETTLED, *PREPARED, State.ONGOING} == set(State)
    assert set(COMPLETED) < set(SETTLED)


def test_the_names_of_states_that_a_filter_may_have() -> None:
    """Transactions are never in the last two, which only Apache Kafka has."""
    names = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort"
    assert {*names.split(), "Dead", "PrepareEpochFence"} == STATE_NAMES


@pytest.mark.parametrize(
    ("topics", "partitions"),
    [(1, 2), (1, 3 * QUICK_ITEMS_PER_STEP), (3 * QUICK_ITEMS_PER_STEP, 1), (50, 90)],
)
def test_many_partitions_are_in_order(topics: int, partitions: int) -> None:
    expected = [(f"t{number:05d}", list(range(partitions))) for number in range(topics)]
    topic_partitions = [(topic, index) for topic, indexes in expected for index in indexes]
    txn = with_partitions(NEW._replace(producer_epoch=0), reversed(topic_partitions), 2, 2_000)
    assert run_at_once(txn.by_topic()) == expected
    ended = prepared(txn, committed=True, version=2, next_producer_id=-1, now_ms=3_000)
    assert run_at_once(markers_of("x", ended)).partitions == tuple(topic_partitions)
    pauses, of_topics = (
        len(topic_partitions) // QUICK_ITEMS_PER_STEP,
        TOPIC_COST * topics // QUICK_ITEMS_PER_STEP,
    )
    assert pauses <= pauses_of(txn.by_topic()) <= 3 * pauses + of_topics
    assert 2 * pauses <= pauses_of(markers_of("x", ended)) <= 4 * pauses + of_topics


def pauses_of(work: Steps[object]) -> int:
    """How often `work` pauses."""
    return sum(1 for _ in work)
