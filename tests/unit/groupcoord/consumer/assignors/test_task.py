"""All assignors: each partition is assigned to one member that subscribes to its topic."""

from __future__ import annotations

import pytest
from hypothesis import given

from kavka.groupcoord.consumer.assignors import ASSIGNORS
from kavka.groupcoord.consumer.assignors.task import Task
from kavka.wire.steps import run_at_once
from support.assignments import check, tasks


@pytest.mark.parametrize("name", ASSIGNORS)
@given(task=tasks())
def test_each_partition_is_assigned_once(name: str, task: Task) -> None:
    check(task, run_at_once(ASSIGNORS[name](task)))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(task=tasks())
def test_an_assignment_is_kept_when_nothing_changes(name: str, task: Task) -> None:
    first = run_at_once(ASSIGNORS[name](task))
    again = task._replace(
        members=[
            member._replace(
                target={topic: tuple(own) for topic, own in first.get(member.member_id, {}).items()}
            )
            for member in task.members
        ]
    )
    assert {key: value for key, value in run_at_once(ASSIGNORS[name](again)).items() if value} == {
        key: value for key, value in first.items() if value
    }
