"""Rules of CreatePartitions; the texts are recorded from Apache Kafka 4.3.1."""

from __future__ import annotations

import uuid
from random import Random

import pytest

from kavka.server.controller.partition_validation import NewPartitions, plan_partitions
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import TopicAssignment

TWO = TopicAssignment(uuid.UUID(int=1), {0: (1,), 1: (1,)}, {}, {})
TWICE = TopicAssignment(uuid.UUID(int=1), {0: (2, 3), 1: (3, 1)}, {}, {})


def plan(
    count: int,
    assignments: list[tuple[int, ...]] | None = None,
    *,
    current: TopicAssignment = TWO,
    brokers: tuple[int, ...] = (1,),
) -> dict[int, tuple[int, ...]]:
    return plan_partitions(
        NewPartitions("t", count, assignments),
        current,
        racks=dict.fromkeys(brokers),
        random=Random(1),
    )


def refused(*args: object, **values: object) -> tuple[ErrorCode, str | None]:
    with pytest.raises(ApiError) as caught:
        plan(*args, **values)  # type: ignore[arg-type]
    return caught.value.code, caught.value.message


def test_only_added_partitions_are_assigned() -> None:
    assert plan(4) == {2: (1,), 3: (1,)}
    assert plan(3, [(1,)]) == {2: (1,)}


def test_added_partitions_have_the_same_replication_factor() -> None:
    planned = plan(5, current=TWICE, brokers=(1, 2, 3))
    assert {len(set(replicas)) for replicas in planned.values()} == {2}
    assert [replicas[0] for replicas in planned.values()] == [1, 2, 3]
    assigned = plan(3, [(3, 2)], current=TWICE, brokers=(1, 2, 3))
    assert assigned == {2: (3, 2)}


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_the_count_must_increase(count: int) -> None:
    code, message = refused(count, [(9,)])
    assert code is ErrorCode.INVALID_PARTITIONS, "checked first"
    if count == 2:
        assert message == "Topic already has 2 partition(s)."
    else:
        assert message == (
            f"The topic t currently has 2 partition(s); {count} would not be an increase."
        )


@pytest.mark.parametrize(
    ("count", "assignments", "message"),
    [
        (
            3,
            [],
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            3,
            [(9,), (1,)],
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
        ),
        (
            3,
            [(9,)],
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (3, [(1, 1)], "The manual partition assignment includes the broker 1 more than once."),
        (3, [()], "The manual partition assignment includes an empty replica list."),
        (
            4,
            [(1,), (1, 2)],
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
    ],
)
def test_invalid_assignments(count: int, assignments: list[tuple[int, ...]], message: str) -> None:
    assert refused(count, assignments) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_an_assignment_with_another_replication_factor() -> None:
    assert refused(3, [(1, 2)], brokers=(1, 2)) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes a partition with 2 replica(s), but this is not "
        "consistent with previous partitions, which have 1 replica(s).",
    )


def test_too_few_brokers_are_registered() -> None:
    code, message = refused(3, current=TWICE)
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert message is not None and "replication factor of 2 cannot be reached" in message


@pytest.mark.parametrize("kind", ["adding", "removing"])
def test_refused_during_a_reassignment(kind: str) -> None:
    moved = {1: (2,)}
    adding, removing = (moved, {}) if kind == "adding" else ({}, moved)
    current = TopicAssignment(TWO.topic_id, TWO.replicas, adding, removing)
    code, _ = refused(3, current=current)
    assert code is ErrorCode.REASSIGNMENT_IN_PROGRESS
