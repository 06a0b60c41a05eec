"""The assignor `range`; the examples are in the documentation of Apache Kafka's."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given

from kavka.groupcoord.consumer.assignors import range as by_range
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.wire.steps import run_at_once
from support.assignments import tasks

T, U = UUID(int=1), UUID(int=2)


def candidate(member_id: str, *topics: UUID, instance_id: str | None = None) -> Candidate:
    return Candidate(member_id, instance_id, topics, {})


def test_members_get_contiguous_and_co_partitioned_ranges() -> None:
    task = Task([candidate("b", T, U), candidate("a", T, U)], {T: 3, U: 3}, True)
    assert run_at_once(by_range.assign(task)) == {
        "a": {T: [0, 1], U: [0, 1]},
        "b": {T: [2], U: [2]},
    }


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    members = [
        candidate("a", T),
        candidate("c", T, instance_id="2"),
        candidate("b", T, instance_id="1"),
    ]
    assert run_at_once(by_range.assign(Task(members, {T: 3}, True))) == {
        "b": {T: [0]},
        "c": {T: [1]},
        "a": {T: [2]},
    }


def test_more_members_than_partitions() -> None:
    task = Task([candidate("a", T), candidate("b", T), candidate("c", T)], {T: 2}, True)
    assert run_at_once(by_range.assign(task)) == {"a": {T: [0]}, "b": {T: [1]}, "c": {}}


def test_each_topic_is_divided_among_its_subscribers() -> None:
    task = Task([candidate("a", T, U), candidate("b", U)], {T: 2, U: 3}, False)
    assert run_at_once(by_range.assign(task)) == {"a": {T: [0, 1], U: [0, 1]}, "b": {U: [2]}}


@given(tasks())
def test_ranges_are_contiguous(task: Task) -> None:
    for own in run_at_once(by_range.assign(task)).values():
        for partitions in own.values():
            assert partitions == list(range(partitions[0], partitions[-1] + 1))
