"""The topics to which a member subscribes. Target assignments are in
`tests/scenarios/consumer_groups`."""

from __future__ import annotations

import pytest

from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.groupcoord.consumer.target import Subscribed, compute
from kavka.wire.steps import run_at_once
from support.consumer_groups import FakeTopics


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (ConsumerGroupMember("m", topic_names=("b", "unknown")), "b"),
        (ConsumerGroupMember("m", topic_regex="x"), "a"),
        (ConsumerGroupMember("m", topic_names=("c",), topic_regex="x"), "ac"),
        (ConsumerGroupMember("m", topic_regex="not resolved yet"), ""),
        (ConsumerGroupMember("m", topic_names=("deleted",)), ""),
    ],
)
def test_topics_by_name_and_by_regex(member: ConsumerGroupMember, expected: str) -> None:
    topics = FakeTopics(a=1, b=1, c=1, deleted=1)
    ids = dict(topics.ids)
    topics.delete("deleted")
    group = ConsumerGroup("g")
    group.put_resolved("x", Resolved(("a", "unknown"), 1, 1))
    subscribed = Subscribed(group, topics, member)
    assert "".join(name for name, topic_id in ids.items() if topic_id in subscribed) == expected
    (target,) = run_at_once(compute(group, topics, member, "range", is_homogeneous=False)).values()
    assert target == {ids[name]: (0,) for name in expected}
