"""A consumer group if a member changed, and after records in the order of a compacted log. That its
counts and owners are those of its members is checked by `test_hostile` and `assert_sound`."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.group import ConsumerGroup, SubscriptionCount, is_homogeneous
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.wire.steps import run_at_once

T = UUID(int=1)


def group_of(*members: ConsumerGroupMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


def test_subscriptions_if_a_member_changed() -> None:
    regex = ConsumerGroupMember("a", topic_regex="x.*")
    group = group_of(regex, ConsumerGroupMember("b", topic_names=("t",)))
    group.put_resolved("x.*", Resolved(("x",), 1, 1))
    by_name = ConsumerGroupMember("a", topic_names=("t",))
    assert run_at_once(group.subscriptions_with(regex, by_name)) == {"t": (2, 0)}
    assert run_at_once(group.subscriptions_with(regex, regex)) == group.subscriptions
    assert run_at_once(group.subscriptions_without([regex])) == {"t": (1, 0)}
    assert group.regexes_with(regex, ConsumerGroupMember("a", topic_regex="y")) == {"y": 1}
    group.put_member(ConsumerGroupMember("c", topic_regex="x.*"))
    assert run_at_once(group.subscriptions_without([regex])) == group.subscriptions
    assert group.last_of({"x.*": 1}) == []
    assert group.last_of({"x.*": 2}) == ["x.*"]


@pytest.mark.parametrize(
    ("regexes", "subscriptions", "members", "expected"),
    [
        ({}, {}, 2, True),
        ({}, {"t": (2, 0)}, 2, True),
        ({}, {"t": (2, 0), "u": (1, 0)}, 2, False),
        ({"x": 2}, {"x": (0, 1)}, 2, True),
        ({"x": 1}, {"x": (0, 1)}, 2, False),
        ({"x": 2}, {"x": (1, 1)}, 2, False),
        ({"x": 1, "y": 1}, {"x": (0, 2)}, 2, False),
    ],
)
def test_whether_all_members_subscribe_to_the_same_topics(
    regexes: dict[str, int], subscriptions: dict[str, tuple[int, int]], members: int, expected: bool
) -> None:
    counts = {topic: SubscriptionCount(*count) for topic, count in subscriptions.items()}
    assert is_homogeneous(regexes, counts, members) is expected


def test_records_of_owners_in_the_order_of_a_compacted_log() -> None:
    group = group_of(ConsumerGroupMember("a", assigned={T: {0: 1}}))
    group.put_member(ConsumerGroupMember("b", 2, assigned={T: {0: 2}}))
    group.put_member(ConsumerGroupMember("a", 2))
    assert group.owners == {T: {0: "b"}}


def test_an_instance_id_belongs_to_the_last_member_that_had_it() -> None:
    group = group_of(
        ConsumerGroupMember("a", instance_id="i"), ConsumerGroupMember("b", instance_id="i")
    )
    group.remove_member("a")
    assert group.static_member("i") == ConsumerGroupMember("b", instance_id="i")
    group.remove_member("b")
    assert group.static_member("i") is None
    assert group.static_member(None) is None
