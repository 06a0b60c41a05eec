"""Which groups have to check their topics again, timers, and the configs of groups."""

from __future__ import annotations

from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import SESSION, SYNC, TOPICS_PER_STEP, GroupIndex
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.wire.steps import run_at_once
from support.consumer_groups import ConsumerKit, FakeTopics


def index_of(*groups: ConsumerGroup, topics: FakeTopics | None = None) -> GroupIndex:
    index = GroupIndex(ConsumerKit(topics=topics).shard.state)
    for group in groups:
        index.state.groups[group.group_id] = group
        index.subscribed(group, ())
        group.refresh_topics = False
    return index


def change(index: GroupIndex, topics: list[str], now_ms: int) -> int:
    """Notify of changed topics; the number of slices."""
    return len(list(index.topics_changed(topics, now_ms)))


def group_with(group_id: str, *topics: str, regex: str = "") -> ConsumerGroup:
    """A group with one member; its regex matches nothing yet."""
    group = ConsumerGroup(group_id)
    group.put_member(ConsumerGroupMember("m", topic_names=topics, topic_regex=regex))
    if regex:
        group.put_resolved(regex, Resolved((), 0, 0))
    return group


def test_subscribers_of_a_topic_check_it_again() -> None:
    group, other = group_with("a", "t", "u"), group_with("b", "u")
    index = index_of(group, other)
    change(index, ["t", "without subscribers"], 1)
    assert (group.refresh_topics, other.refresh_topics) == (True, False)
    group.refresh_topics = False
    before = dict(group.subscriptions)
    group.put_member(ConsumerGroupMember("m", topic_names=("u",)))
    index.subscribed(group, before)
    change(index, ["t"], 1)
    assert not group.refresh_topics
    change(index, ["u"], 1)
    assert group.refresh_topics and other.refresh_topics


def test_a_topic_that_a_regex_matches_is_a_newer_version() -> None:
    group = group_with("a", regex="t.*")
    index = index_of(group)
    change(index, ["other", "tt"], 5)
    assert index.topics_version == 0, "neither exists"
    change(index, ["t"], 5)
    change(index, ["t"], 5)
    assert index.topics_version == 6
    group.put_resolved("t.*", Resolved(("t",), 6, 0))
    change(index, ["t"], 50)
    assert index.topics_version == 6


def test_many_topics_and_regexes_are_processed_in_slices() -> None:
    names = [f"u{number}" for number in range(400)]
    groups = [group_with(f"g{number}", regex=f"t{number}.*") for number in range(150)]
    index = index_of(*groups, topics=FakeTopics(**dict.fromkeys(names, 1), t1=1))
    assert change(index, names, 5) > 150, "more regexes than are kept compiled"
    assert index.topics_version == 0
    change(index, [*names, "t1"], 5)
    assert index.topics_version == 5
    assert change(index_of(), ["t"] * (2 * TOPICS_PER_STEP + 1), 0) == 3


def test_timers_are_restored_if_the_member_is_still_there() -> None:
    index = index_of(group_with("a", "t"))
    index.set_timer(SESSION, "a", "m", 30)
    index.set_timer(SYNC, "a", "m", 40)
    index.set_timer(SESSION, "a", "removed", 30)
    taken = run_at_once(index.cancel_member_timers("a", ["m", "removed"]))
    index.set_timer(SESSION, "a", "m", 50)
    index.restore_timers(taken)
    timers = index.state.timers
    assert timers.at(("consumer", SESSION, "a", "m")) == 50, "of a later heartbeat"
    assert timers.at(("consumer", SYNC, "a", "m")) == 40
    assert len(timers) == 2


def test_configs_of_a_group_apply_within_the_bounds_of_the_broker() -> None:
    index = index_of()
    configs = {
        "a": {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"},
        "b": {"consumer.session.timeout.ms": "1", "consumer.assignment.interval.ms": "99999"},
    }
    index.state.configs = lambda group_id: configs.get(group_id, {})

    def times(group_id: str) -> tuple[int, int, int]:
        return (
            index.session_timeout_ms(group_id),
            index.heartbeat_interval_ms(group_id),
            index.assignment_interval_ms(group_id),
        )

    assert times("a") == (50_000, 6_000, 1_000)
    assert times("b") == (45_000, 5_000, 15_000), "the bounds may have changed since"
    assert times("c") == (45_000, 5_000, 1_000)
