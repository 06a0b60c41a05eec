"""The target assignment of a group of which one member has changed."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.member import Member, Target
from kavka.groupcoord.consumer.records import Resolved
from kavka.groupcoord.consumer.target import Subscribed, compute
from kavka.wire.steps import run_to_completion
from support.consumer_groups import FakeTopics

TOPICS = FakeTopics(t=4, u=2)
T, U = TOPICS.ids["t"], TOPICS.ids["u"]


def group_of(*members: Member) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


def assigned(
    group: ConsumerGroup, new: Member, assignor: str = "uniform", *, alike: bool = True
) -> Mapping[str, Target]:
    return run_to_completion(compute(group, TOPICS, new, assignor, is_homogeneous=alike))


def test_a_static_member_takes_over_the_target_of_its_predecessor() -> None:
    group = group_of(
        Member("a", topic_names=("t",), instance_id="i"),
        Member("b", topic_names=("t",)),
        Member("d", topic_names=("t",)),
    )
    group.targets = {"a": {T: (1, 3)}, "b": {T: (0, 2)}}
    found = assigned(group, Member("c", topic_names=("t",), instance_id="i"))
    assert found == {"b": {T: (0, 2)}, "d": {T: (3,)}, "c": {T: (1,)}}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_unknown_topics_are_left_out(assignor: str) -> None:
    new = Member("a", topic_names=("unknown", "u"))
    assert assigned(group_of(), new, assignor) == {"a": {U: (0, 1)}}
    assert assigned(group_of(), Member("a"), assignor) == {"a": {}}


def test_topics_by_name_and_by_regex() -> None:
    group = group_of()
    group.put_resolved("x", Resolved(("t", "unknown"), 1, 1))
    both = Member("a", topic_names=("u",), topic_regex="x")
    assert assigned(group, both, "range", alike=False) == {"a": {U: (0, 1), T: (0, 1, 2, 3)}}
    for member, expected in (
        (both, {T, U}),
        (Member("m", topic_names=("u", "unknown")), {U}),
        (Member("m", topic_regex="x"), {T}),
        (Member("m", topic_regex="not resolved yet"), set()),
    ):
        subscribed = Subscribed(group, TOPICS, member)
        assert {one for one in (T, U) if one in subscribed} == expected
    assert UUID(int=99) not in Subscribed(group, TOPICS, both), "a deleted topic"
