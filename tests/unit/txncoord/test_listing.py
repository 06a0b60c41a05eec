"""What tools are told of transactions."""

from __future__ import annotations

import re

import pytest

from kavka.txncoord.listing import (
    STATE_NAMES,
    DescribedTransaction,
    Filter,
    ListedTransaction,
    described,
    known,
    listed,
)
from kavka.txncoord.requests import ProducerIdAndEpoch
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.journal_kit import START_MS
from support.refusals import refusal
from support.transaction_machine import FIRST_ID, TIMEOUT_MS, TransactionKit

X = ListedTransaction("x", FIRST_ID, "Ongoing")
Y = ListedTransaction("y", FIRST_ID + 1, "Empty")


@pytest.fixture
def kit() -> TransactionKit:
    """A minute ago "x" began a transaction, and "y" nothing."""
    kit = TransactionKit()
    kit.add(kit.init("x"), ("u", 1), ("t", 2), ("t", 0))
    kit.init("y")
    kit.now_ms += 60_000
    return kit


def found(kit: TransactionKit, wanted: Filter) -> list[ListedTransaction]:
    return listed(kit.shard.state, ["x", "gone", "y"], wanted, kit.now_ms)


def test_all_are_listed_of_those_that_are_there(kit: TransactionKit) -> None:
    assert found(kit, Filter()) == [X, Y]


@pytest.mark.parametrize(
    "wanted, expected",
    [
        (Filter(states=["Ongoing", "Dead"]), [X]),
        (Filter(states=["ongoing"]), []),
        (Filter(states=["no such state"]), []),
        (Filter(producer_ids=[FIRST_ID + 1, 1]), [Y]),
        (Filter(duration_ms=0), [X, Y]),
        (Filter(duration_ms=59_999), [X, Y]),
        (Filter(duration_ms=60_000), [Y]),
        (Filter(pattern=re.compile("[a-x]")), [X]),
        (Filter(pattern=re.compile("")), []),
        (Filter(states=["Ongoing"], producer_ids=[FIRST_ID + 1]), []),
    ],
)
def test_filters(kit: TransactionKit, wanted: Filter, expected: list[ListedTransaction]) -> None:
    """Of one that has not begun the duration is since 1970, as in Apache Kafka."""
    assert found(kit, wanted) == expected


def told(kit: TransactionKit, transactional_id: str = "x") -> DescribedTransaction:
    return run_at_once(described(known(kit.shard.state, transactional_id)))


def test_an_id_is_described(kit: TransactionKit) -> None:
    assert told(kit) == DescribedTransaction(
        "Ongoing", TIMEOUT_MS, START_MS, FIRST_ID, 0, [("t", [0, 2]), ("u", [1])]
    )
    assert told(kit, "y") == DescribedTransaction("Empty", TIMEOUT_MS, -1, FIRST_ID + 1, 0, [])


def test_all_states_have_their_names(kit: TransactionKit) -> None:
    producer, seen = ProducerIdAndEpoch(FIRST_ID, 0), []
    for committed in (True, False):
        kit.add(producer)
        producer = kit.end(producer, committed=committed)
        seen.append(told(kit).state)
        kit.mark()
        seen.append(told(kit).state)
    assert seen == ["PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort"]
    assert STATE_NAMES == {*seen, "Empty", "Ongoing", "Dead", "PrepareEpochFence"}


def test_an_id_that_is_not_there_is_not_described(kit: TransactionKit) -> None:
    missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert refusal(known, kit.shard.state, "gone") == missing
    assert refusal(known, kit.shard.state, "") == ErrorCode.INVALID_REQUEST
