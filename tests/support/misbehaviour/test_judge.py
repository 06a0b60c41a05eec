"""The judge of logs that were written to through a bad network finds what may be wrong."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.wire_client import encode
from support.memory_broker import producing
from support.misbehaviour import produced
from support.misbehaviour.judge import (
    UNKNOWN,
    Numbered,
    Outcomes,
    Written,
    numbered,
    of_batches,
    of_records,
)
from support.misbehaviour.producers import Hearing

ONE, OTHER = 1000, 1001


def batch(offset: int, sequence: int, *, epoch: int = 0, producer: int = ONE) -> Written:
    """Ten records."""
    return Written(offset, 10, producer, epoch, sequence)


GOOD = [
    batch(0, 0),
    batch(10, 0, producer=OTHER),
    batch(20, 10),
    batch(30, 0, epoch=1),
    batch(40, 10, producer=OTHER),
    batch(50, 10, epoch=1),
]


def test_sequences_that_follow_each_other_are_good() -> None:
    assert list(of_batches(0, GOOD)) == []


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([*GOOD, batch(60, 10, producer=OTHER)], "producer 1001 epoch 0 repeats 10, 20 is next"),
        ([*GOOD, batch(60, 30, producer=OTHER)], "producer 1001 epoch 0 skips to 30, 20 is next"),
        ([*GOOD, batch(60, 20)], "producer 1000 has epoch 0 after 1"),
        ([batch(0, 10)], "producer 1000 epoch 0 skips to 10, 0 is next"),
        ([*GOOD, batch(60, 20, epoch=2)], "producer 1000 epoch 2 skips to 20, 0 is next"),
    ],
)
def test_wrong_sequences_are_found(log: list[Written], complaint: str) -> None:
    (found,) = of_batches(3, log)
    assert found == f"3@{log[-1].base_offset}: {complaint}"


def record(number: int, writer: str = "a", partition: int = 0) -> Numbered:
    return Numbered(writer, partition, number)


def outcomes(*numbers: int) -> Outcomes:
    """All of a writer's numbers lie at the offsets of the same number."""
    found = Outcomes()
    for number in numbers:
        found.acknowledge(record(number), number)
    return found


def complaints(numbers: list[int], answers: Outcomes) -> list[str]:
    """About a partition that has these numbers of a writer."""
    return list(
        of_records({0: [(at, record(number)) for at, number in enumerate(numbers)]}, answers)
    )


def test_all_once_and_in_order_is_good() -> None:
    answers = outcomes(0, 1)
    answers.acknowledge(record(2), UNKNOWN)
    answers.give_up(record(3), "timed out")
    answers.give_up(record(4), "timed out")
    assert complaints([0, 1, 2, 4], answers) == []


@pytest.mark.parametrize(
    ("numbers", "acknowledged", "complaint"),
    [
        ([0, 1, 1], (0, 1), "is a duplicate of that at 1"),
        ([0, 1, 0], (0, 1), "is a duplicate of that at 0"),
        ([0, 2], (0,), "number=1) is missing before 2"),
        ([0, 2, 1], (0,), "comes after a later one"),
        ([0], (0, 1), "is acknowledged at 1 and not there"),
        ([0, 1], (0, 0, 1), "is acknowledged twice"),
    ],
)
def test_wrong_records_are_found(
    numbers: list[int], acknowledged: tuple[int, ...], complaint: str
) -> None:
    (found,) = complaints(numbers, outcomes(*acknowledged))
    assert found.endswith(complaint)


def test_a_record_elsewhere_is_found() -> None:
    answers = outcomes(0)
    answers.acknowledge(record(1), 5)
    assert complaints([0, 1], answers) == [f"{record(1)} is acknowledged at 5 and lies at 1"]
    there = {1: [(0, record(0))]}
    assert f"1@0: {record(0)} is in a wrong partition" in of_records(there, Outcomes())


def test_what_producers_hear_is_distinguished() -> None:
    hearing = Hearing()
    hearing.acknowledge(b"a#1/0/7/...", 0, 70)
    hearing.fail(b"b#1/2/8/...", "timed out")
    hearing.acknowledge(b"a#1/0/9/...", 1, 3)
    assert hearing.outcomes.acknowledged[Numbered("a#1", 0, 7)] == 70
    assert hearing.outcomes.given_up == {Numbered("b#1", 2, 8): "timed out"}
    assert hearing.given_up == {"b#1"}
    assert len(hearing.outcomes.complaints) == 1, "of a record for partition 0, acknowledged for 1"


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_batches_are_found_in_requests_of_any_form(version: int) -> None:
    records = {
        (topic, partition): bytes(batches.build(producer=(ONE, 2, 30)))
        for topic, partition in (("t", 1), ("t", 2), ("u", 0))
    }
    frame = encode("Produce", version, 7, **producing(records))
    assert produced.api_of(frame) == (produced.PRODUCE, version)
    assert produced.batches_of(frame) == tuple(
        produced.Batch(ONE, 2, topic, partition, 30) for topic, partition in records
    )


def test_records_are_known_by_their_values() -> None:
    assert numbered(b"java#3/2/41/......") == Numbered("java#3", 2, 41)
