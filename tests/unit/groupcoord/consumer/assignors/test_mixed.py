"""The assignor `uniform` where members subscribe to different topics."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given

from kavka.groupcoord.consumer.assignors import mixed
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.wire.steps import run_at_once
from support.assignments import check, tasks

T, U = UUID(int=1), UUID(int=2)


def test_shared_topics_go_to_the_member_with_the_fewest_partitions() -> None:
    members = [Candidate("a", None, [T, U], {}), Candidate("b", None, [U], {})]
    found = run_at_once(mixed.assign(Task(members, {T: 2, U: 4}, False)))
    assert {name: sum(map(len, own.values())) for name, own in found.items()} == {"a": 3, "b": 3}
    assert found["a"][T] == [0, 1]


def test_a_balanced_assignment_is_kept() -> None:
    members = [
        Candidate("a", None, [T, U], {T: (0, 1), U: (3,)}),
        Candidate("b", None, [U], {U: (0, 1, 2)}),
    ]
    assert run_at_once(mixed.assign(Task(members, {T: 2, U: 4}, False))) == {
        "a": {T: [0, 1], U: [3]},
        "b": {U: [0, 1, 2]},
    }


def test_partitions_move_to_the_member_with_the_fewest() -> None:
    members = [
        Candidate("a", None, [T, U], {T: (0, 1, 2, 3), U: (0,)}),
        Candidate("b", None, [T], {}),
    ]
    found = run_at_once(mixed.assign(Task(members, {T: 4, U: 1}, False)))
    assert found == {"a": {T: [0, 1], U: [0]}, "b": {T: [2, 3]}}


@given(tasks())
def test_no_single_move_improves_the_balance(task: Task) -> None:
    found = run_at_once(mixed.assign(task))
    check(task, found)
    sizes = {name: sum(map(len, own.values())) for name, own in found.items()}
    for giver in task.members:
        for topic in found[giver.member_id]:
            for taker in task.members:
                if topic in taker.topics:
                    assert sizes[giver.member_id] - sizes[taker.member_id] <= 1


def test_wrong_targets_of_a_damaged_log_are_corrected() -> None:
    """Partitions that do not exist, and one that two members have as target."""
    members = [
        Candidate("a", None, [T], {T: (0, 1, 7)}),
        Candidate("b", None, [T, U], {T: (1, 2)}),
    ]
    found = run_at_once(mixed.assign(Task(members, {T: 3, U: 1}, False)))
    assert found == {"a": {T: [0, 1]}, "b": {T: [2], U: [0]}}
