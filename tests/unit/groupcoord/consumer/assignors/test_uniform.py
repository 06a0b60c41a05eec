"""The assignor `uniform` where all members subscribe to the same topics."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kavka.groupcoord.consumer.assignors import mixed, uniform
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.wire.steps import Steps, run_at_once
from support.assignments import tasks

T = UUID(int=1)


def candidate(member_id: str, *partitions: int) -> Candidate:
    return Candidate(member_id, None, [T], {T: partitions} if partitions else {})


def test_without_members_or_topics() -> None:
    assert run_at_once(uniform.assign(Task([], {}, True))) == {}
    assert run_at_once(uniform.assign(Task([Candidate("a", None, [], {})], {}, True))) == {"a": {}}


def test_a_new_member_gets_the_surplus_of_the_others() -> None:
    task = Task([candidate("a", 0, 1, 2, 3), candidate("b")], {T: 4}, True)
    assert run_at_once(uniform.assign(task)) == {"a": {T: [0, 1]}, "b": {T: [2, 3]}}


def test_a_surplus_of_one_stays_where_it_is() -> None:
    task = Task([candidate("a", 0), candidate("b", 1, 2)], {T: 3}, True)
    assert run_at_once(uniform.assign(task)) == {"a": {T: [0]}, "b": {T: [1, 2]}}


@given(tasks())
def test_numbers_of_partitions_differ_by_one_at_most(task: Task) -> None:
    assume(task.is_homogeneous)
    sizes = [sum(map(len, own.values())) for own in run_at_once(uniform.assign(task)).values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("assign", [uniform.assign, mixed.assign])
@given(
    st.lists(st.lists(st.integers(-2, 9), max_size=8), min_size=1, max_size=4), st.integers(0, 6)
)
def test_with_wrong_targets_each_partition_has_one_member(
    assign: Callable[[Task], Steps[dict[str, dict[UUID, list[int]]]]],
    targets: list[list[int]],
    partitions: int,
) -> None:
    """As in a damaged log: a partition may be there twice, or not exist."""
    members = [candidate(f"m{number}", *target) for number, target in enumerate(targets)]
    found = run_at_once(assign(Task(members, {T: partitions}, True)))
    given_out = sorted(partition for own in found.values() for partition in own.get(T, ()))
    assert given_out == list(range(partitions))
    sizes = [len(own.get(T, ())) for own in found.values()]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 6), st.integers(1, 20))
def test_a_new_member_causes_as_few_moves_as_possible(members: int, partitions: int) -> None:
    before = run_at_once(
        uniform.assign(
            Task([candidate(f"m{number}") for number in range(members)], {T: partitions}, True)
        )
    )
    have = [candidate(name, *own.get(T, ())) for name, own in before.items()]
    after = run_at_once(uniform.assign(Task([*have, candidate("new")], {T: partitions}, True)))
    moved = sum(len(set(before[name].get(T, ())) - set(after[name].get(T, ()))) for name in before)
    assert moved == len(after["new"].get(T, ())) == partitions // (members + 1)
