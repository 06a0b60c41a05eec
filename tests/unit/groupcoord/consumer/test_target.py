"""The target assignment of a group with one member changed."""

from __future__ import annotations

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.member import Member
from kavka.groupcoord.consumer.records import Resolved
from kavka.groupcoord.consumer.target import Subscribed, compute
from kavka.wire.steps import run_at_once
from support.consumer_groups import FakeTopics

TOPICS = FakeTopics(t=4, u=2)
T, U = TOPICS.ids["t"], TOPICS.ids["u"]


def group_of(*members: Member) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


def test_a_new_member_is_counted_and_an_old_one_changed() -> None:
    group = group_of(Member("a", topic_names=("t",)))
    group.targets["a"] = {T: (0, 1, 2, 3)}
    new = Member("b", topic_names=("t",))
    found = run_at_once(compute(group, TOPICS, new, "uniform", is_homogeneous=True))
    assert found == {"a": {T: (0, 1)}, "b": {T: (2, 3)}}
    changed = Member("a", topic_names=("u",))
    assert run_at_once(compute(group, TOPICS, changed, "uniform", is_homogeneous=True)) == {
        "a": {U: (0, 1)}
    }


def test_a_static_member_inherits() -> None:
    group = group_of(
        Member("a", topic_names=("t",), instance_id="i"), Member("b", topic_names=("t",))
    )
    group.put_member(Member("d", topic_names=("t",)))
    group.targets = {"a": {T: (1, 3)}, "b": {T: (0, 2)}}
    new = Member("c", topic_names=("t",), instance_id="i")
    found = run_at_once(compute(group, TOPICS, new, "uniform", is_homogeneous=True))
    assert found == {"b": {T: (0, 2)}, "d": {T: (3,)}, "c": {T: (1,)}}


def test_topics_that_do_not_exist_are_left_out() -> None:
    group = group_of()
    new = Member("a", topic_names=("nothing", "u"))
    for assignor in ("uniform", "range"):
        found = run_at_once(compute(group, TOPICS, new, assignor, is_homogeneous=True))
        assert found == {"a": {U: (0, 1)}}
    assert run_at_once(compute(group, TOPICS, Member("a"), "range", is_homogeneous=True)) == {
        "a": {}
    }


def test_what_expressions_stand_for_counts() -> None:
    group = group_of()
    group.put_resolved("x", Resolved(("t", "u"), 1, 1))
    new = Member("a", topic_names=("u",), topic_regex="x")
    subscribed = Subscribed(group, TOPICS, new)
    assert T in subscribed and U in subscribed
    found = run_at_once(compute(group, TOPICS, new, "range", is_homogeneous=False))
    assert found == {"a": {U: (0, 1), T: (0, 1, 2, 3)}}


def test_which_topics_a_member_reads() -> None:
    topics = FakeTopics(a=1, b=1, c=1)
    ids = dict(topics.ids)
    group = group_of()
    group.put_resolved("x", Resolved(("a", "nothing"), 1, 1))
    for member, names in (
        (Member("m", topic_names=("b", "nothing")), "b"),
        (Member("m", topic_regex="x"), "a"),
        (Member("m", topic_names=("c",), topic_regex="x"), "ac"),
        (Member("m", topic_regex="not known yet"), ""),
    ):
        subscribed = Subscribed(group, topics, member)
        assert "".join(name for name, one in ids.items() if one in subscribed) == names
    topics.delete("b")
    assert ids["b"] not in Subscribed(group, topics, Member("m", topic_names=("b",)))
