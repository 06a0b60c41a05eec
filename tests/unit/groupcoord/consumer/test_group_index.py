"""What the rules of consumer groups share."""

from __future__ import annotations

from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import JOIN, SESSION, SYNC, Book
from kavka.groupcoord.consumer.member import ClassicProtocols, Member
from kavka.groupcoord.consumer.records import Resolved
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_to_completion
from support.consumer_groups import SESSION_MS, ConsumerKit, FakeTopics
from support.refusals import refusal


def book_with(*groups: ConsumerGroup) -> Book:
    book = Book(ConsumerKit().shard.state)
    for group in groups:
        book.state.groups[group.group_id] = group
        book.subscribed(group, ())
        group.refresh_topics = False
    return book


def change(book: Book, topics: list[str], now_ms: int) -> int:
    """Tell of topics; how many slices it took."""
    return len(list(book.topics_changed(topics, now_ms)))


def reader(group_id: str, *topics: str, regex: str = "") -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    group.put_member(Member("m", topic_names=topics, topic_regex=regex))
    return group


def test_readers_of_a_topic_look_at_it_again() -> None:
    one, other = reader("a", "t", "u"), reader("b", "u")
    book = book_with(one, other)
    change(book, ["t", "nobody's"], 1)
    assert (one.refresh_topics, other.refresh_topics) == (True, False)


def test_who_reads_a_topic_no_longer_is_left_alone() -> None:
    group = reader("a", "t")
    book = book_with(group)
    before = dict(group.subscriptions)
    group.put_member(Member("m", topic_names=("u",)))
    book.subscribed(group, before)
    change(book, ["t"], 1)
    assert not group.refresh_topics
    change(book, ["u"], 1)
    assert group.refresh_topics


def test_a_topic_that_an_expression_stands_for_is_a_newer_version() -> None:
    group = reader("a", regex="t.*")
    group.put_resolved("t.*", Resolved((), 0, 0))
    book = book_with(group)
    change(book, ["other", "tt"], 5)
    assert book.topics_version == 0, "neither is there"
    change(book, ["t"], 5)
    change(book, ["t"], 5)
    assert book.topics_version == 6
    group.put_resolved("t.*", Resolved(("t",), 6, 0))
    change(book, ["t"], 50)
    assert book.topics_version == 6


def test_many_topics_and_expressions_are_looked_at_in_slices() -> None:
    names = [f"u{number}" for number in range(400)]
    kit = ConsumerKit(topics=FakeTopics(**dict.fromkeys(names, 1), t1=1))
    book = Book(kit.shard.state)
    for number in range(150):  # more than are kept compiled
        group = reader(f"g{number}", regex=f"t{number}.*")
        group.put_resolved(f"t{number}.*", Resolved((), 0, 0))
        book.state.groups[group.group_id] = group
        book.subscribed(group, ())
    assert change(book, names, 5) > 150
    assert book.topics_version == 0
    change(book, [*names, "t1"], 5)
    assert book.topics_version == 5


def test_groups_by_name() -> None:
    group = reader("a", "t")
    book = book_with(group)
    assert book.group("a") is group
    assert book.find("a", "m") == (group, group.members["m"])
    assert book.find("a", "x") is None
    assert book.find("b", "m") is None
    assert refusal(lambda: book.group("b")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_deadlines() -> None:
    book = book_with()
    timers = book.state.timers
    book.set_timer_once(JOIN, "a", "m", 10)
    book.set_timer_once(JOIN, "a", "m", 20)
    book.set_timer(SESSION, "a", "m", 30)
    assert timers.at(("consumer", JOIN, "a", "m")) == 10
    book.cancel_timer(JOIN, "a", "m")
    assert ("consumer", JOIN, "a", "m") not in timers
    assert run_to_completion(book.take_timers("a", ["x", "m"])) == [(SESSION, "a", "m", 30)]
    assert len(timers) == 0


def test_deadlines_are_put_back_where_the_member_is_still_there() -> None:
    book = book_with(reader("a", "t"))
    book.set_timer(SESSION, "a", "m", 30)
    book.set_timer(SYNC, "a", "m", 40)
    book.set_timer(SESSION, "a", "gone", 30)
    taken = run_to_completion(book.take_timers("a", ["m", "gone"]))
    book.set_timer(SESSION, "a", "m", 50)
    book.put_back(taken)
    timers = book.state.timers
    assert timers.at(("consumer", SESSION, "a", "m")) == 50, "it was heard of since"
    assert timers.at(("consumer", SYNC, "a", "m")) == 40
    assert len(timers) == 2


def test_sessions_of_both_kinds_of_members() -> None:
    group = reader("a", "t")
    book = book_with(group)
    book.keep_alive(group, group.members["m"], 100)
    assert book.state.timers.at(("consumer", SESSION, "a", "m")) == 100 + SESSION_MS
    book.keep_alive(group, Member("c", classic=ClassicProtocols(7, ())), 100)
    assert book.state.timers.at(("consumer", SESSION, "a", "c")) == 107


def test_a_group_may_have_times_of_its_own_within_bounds() -> None:
    kit = ConsumerKit()
    book = Book(kit.shard.state)
    configs = {
        "a": {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"},
        "b": {"consumer.session.timeout.ms": "1", "consumer.assignment.interval.ms": "99999"},
    }
    book.state.configs = lambda group_id: configs.get(group_id, {})

    def times(group_id: str) -> tuple[int, int, int]:
        return (
            book.session_timeout_ms(group_id),
            book.heartbeat_interval_ms(group_id),
            book.assignment_interval_ms(group_id),
        )

    assert times("a") == (50_000, 6_000, 1_000)
    assert times("b") == (45_000, 5_000, 15_000), "the broker's bounds have changed since"
    assert times("c") == (45_000, 5_000, 1_000)
