"""What the rules of consumer groups share."""

from __future__ import annotations

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import JOIN, SESSION, SYNC, GroupIndex
from kavka.groupcoord.consumer.member import ClassicProtocols, Member
from kavka.groupcoord.consumer.records import Resolved
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.consumer_groups import SESSION_MS, ConsumerKit, FakeTopics
from support.refusals import refusal


def book_with(*groups: ConsumerGroup) -> GroupIndex:
    index = GroupIndex(ConsumerKit().shard.state)
    for group in groups:
        index.state.groups[group.group_id] = group
        index.subscribed(group, ())
        group.refresh_topics = False
    return index


def change(index: GroupIndex, topics: list[str], now_ms: int) -> int:
    """Tell of topics; how many slices it took."""
    return len(list(index.topics_changed(topics, now_ms)))


def reader(group_id: str, *topics: str, regex: str = "") -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    group.put_member(Member("m", topic_names=topics, topic_regex=regex))
    return group


def test_readers_of_a_topic_look_at_it_again() -> None:
    one, other = reader("a", "t", "u"), reader("b", "u")
    index = book_with(one, other)
    change(index, ["t", "nobody's"], 1)
    assert (one.refresh_topics, other.refresh_topics) == (True, False)


def test_who_reads_a_topic_no_longer_is_left_alone() -> None:
    group = reader("a", "t")
    index = book_with(group)
    before = dict(group.subscriptions)
    group.put_member(Member("m", topic_names=("u",)))
    index.subscribed(group, before)
    change(index, ["t"], 1)
    assert not group.refresh_topics
    change(index, ["u"], 1)
    assert group.refresh_topics


def test_a_topic_that_an_expression_stands_for_is_a_newer_version() -> None:
    group = reader("a", regex="t.*")
    group.put_resolved("t.*", Resolved((), 0, 0))
    index = book_with(group)
    change(index, ["other", "tt"], 5)
    assert index.topics_version == 0, "neither is there"
    change(index, ["t"], 5)
    change(index, ["t"], 5)
    assert index.topics_version == 6
    group.put_resolved("t.*", Resolved(("t",), 6, 0))
    change(index, ["t"], 50)
    assert index.topics_version == 6


def test_many_topics_and_expressions_are_looked_at_in_slices() -> None:
    names = [f"u{number}" for number in range(400)]
    kit = ConsumerKit(topics=FakeTopics(**dict.fromkeys(names, 1), t1=1))
    index = GroupIndex(kit.shard.state)
    for number in range(150):  # more than are kept compiled
        group = reader(f"g{number}", regex=f"t{number}.*")
        group.put_resolved(f"t{number}.*", Resolved((), 0, 0))
        index.state.groups[group.group_id] = group
        index.subscribed(group, ())
    assert change(index, names, 5) > 150
    assert index.topics_version == 0
    change(index, [*names, "t1"], 5)
    assert index.topics_version == 5


def test_groups_by_name() -> None:
    group = reader("a", "t")
    index = book_with(group)
    assert index.group("a") is group
    assert index.find("a", "m") == (group, group.members["m"])
    assert index.find("a", "x") is None
    assert index.find("b", "m") is None
    assert refusal(lambda: index.group("b")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_deadlines() -> None:
    index = book_with()
    timers = index.state.timers
    index.set_timer_once(JOIN, "a", "m", 10)
    index.set_timer_once(JOIN, "a", "m", 20)
    index.set_timer(SESSION, "a", "m", 30)
    assert timers.at(("consumer", JOIN, "a", "m")) == 10
    index.cancel_timer(JOIN, "a", "m")
    assert ("consumer", JOIN, "a", "m") not in timers
    assert run_at_once(index.cancel_member_timers("a", ["x", "m"])) == [(SESSION, "a", "m", 30)]
    assert len(timers) == 0


def test_deadlines_are_put_back_where_the_member_is_still_there() -> None:
    index = book_with(reader("a", "t"))
    index.set_timer(SESSION, "a", "m", 30)
    index.set_timer(SYNC, "a", "m", 40)
    index.set_timer(SESSION, "a", "gone", 30)
    taken = run_at_once(index.cancel_member_timers("a", ["m", "gone"]))
    index.set_timer(SESSION, "a", "m", 50)
    index.restore_timers(taken)
    timers = index.state.timers
    assert timers.at(("consumer", SESSION, "a", "m")) == 50, "it was heard of since"
    assert timers.at(("consumer", SYNC, "a", "m")) == 40
    assert len(timers) == 2


def test_sessions_of_both_kinds_of_members() -> None:
    group = reader("a", "t")
    index = book_with(group)
    index.keep_alive(group, group.members["m"], 100)
    assert index.state.timers.at(("consumer", SESSION, "a", "m")) == 100 + SESSION_MS
    index.keep_alive(group, Member("c", classic=ClassicProtocols(7, ())), 100)
    assert index.state.timers.at(("consumer", SESSION, "a", "c")) == 107


def test_a_group_may_have_times_of_its_own_within_bounds() -> None:
    kit = ConsumerKit()
    index = GroupIndex(kit.shard.state)
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
    assert times("b") == (45_000, 5_000, 15_000), "the broker's bounds have changed since"
    assert times("c") == (45_000, 5_000, 1_000)
