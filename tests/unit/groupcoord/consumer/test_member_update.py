"""What requests do to a group's epoch and assignment, apart from who sends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.groupcoord.consumer import records
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import GroupIndex
from kavka.groupcoord.consumer.hashing import TopicHashes
from kavka.groupcoord.consumer.member import Member
from kavka.groupcoord.consumer.member_update import (
    RESOLVING_INTERVAL_MS,
    MemberUpdate,
    RegexChange,
    resolution_records,
)
from kavka.groupcoord.consumer.records import Resolved
from kavka.log.journal import Record
from kavka.wire.steps import run_at_once
from support.consumer_groups import INTERVAL_MS, ConsumerKit, FakeTopics, assert_sound

NOW_MS = 1_000_000


class Bench:
    """A group with one member, and a change of it."""

    def __init__(self, member: Member) -> None:
        self.kit = ConsumerKit()
        self.index = GroupIndex(self.kit.shard.state)
        self.group = ConsumerGroup("g")
        self.group.put_member(member)
        self.old = member
        self.records: list[Record] = []

    def change(self, now_ms: int = NOW_MS) -> MemberUpdate:
        return MemberUpdate(self.index, self.group, self.old, self.records, now_ms)

    @property
    def kinds(self) -> list[int]:
        return [records.read_key(record.key).kind for record in self.records]


def see_all(topic: str) -> bool:
    return True


# -- regular expressions -----------------------------------------------------------------------


def test_the_last_reader_of_an_expression_drops_it() -> None:
    bench = Bench(Member("a", topic_regex="t"))
    new = replace(bench.old, topic_regex="")
    assert bench.change().update_regex(new, see_all) is RegexChange.RESOLVED
    assert bench.kinds == [records.REGEX]
    assert bench.records[0].value is None


@pytest.mark.parametrize(("known", "change"), [(True, "RESOLVED"), (False, "CHANGED")])
def test_an_expression_that_another_member_has(known: bool, change: str) -> None:
    bench = Bench(Member("a"))
    bench.group.put_member(Member("b", topic_regex="t"))
    if known:
        bench.group.put_resolved("t", Resolved(("t",), 0, NOW_MS))
    new = replace(bench.old, topic_regex="t")
    assert bench.change().update_regex(new, see_all).name == change


def test_expressions_are_resolved_together_and_not_too_often() -> None:
    bench = Bench(Member("a", topic_regex="t"))
    bench.group.put_resolved("t", Resolved(("t",), 0, NOW_MS))
    new = replace(bench.old, topic_regex="u")
    bench.change(NOW_MS + RESOLVING_INTERVAL_MS).update_regex(new, see_all)
    assert not bench.index.resolutions
    bench.change(NOW_MS + RESOLVING_INTERVAL_MS + 1).update_regex(new, see_all)
    assert list(bench.index.resolutions) == ["g"]
    first = bench.index.resolutions["g"]
    bench.change(NOW_MS + 10 * RESOLVING_INTERVAL_MS).update_regex(new, see_all)
    assert bench.index.resolutions["g"] is first, "one at a time"


def test_what_was_found_is_another_epoch_only_if_it_is_new() -> None:
    bench = Bench(Member("a", topic_regex="t"))
    found = {"t": Resolved(("t",), 1, NOW_MS), "gone": Resolved(("t",), 1, NOW_MS)}
    out = run_at_once(resolution_records(bench.index, bench.group, found))
    assert [records.read_key(one.key).kind for one in out] == [records.REGEX, records.GROUP]
    value = out[1].value
    assert value is not None
    epoch, bench.group.metadata_hash = records.read_group(value)
    assert epoch == 2
    bench.group.put_resolved("t", found["t"])
    again = run_at_once(
        resolution_records(bench.index, bench.group, {"t": Resolved(("t",), 2, NOW_MS)})
    )
    assert [records.read_key(one.key).kind for one in again] == [records.REGEX]


# -- epochs ------------------------------------------------------------------------------------


def test_topics_are_looked_at_when_they_may_have_changed() -> None:
    bench = Bench(Member("a", topic_names=("t",)))
    assert run_at_once(bench.change().update_epoch(bench.old, bump=False)) == (2, True)
    assert bench.kinds == [records.GROUP]
    bench.group.group_epoch, bench.group.metadata_hash = (
        2,
        run_at_once(bench.index.hashes.of_group(["t"])),
    )
    assert run_at_once(bench.change().update_epoch(bench.old, bump=False)) == (2, True)
    bench.group.refresh_topics = True
    assert run_at_once(bench.change().update_epoch(bench.old, bump=False)) == (2, True)
    assert bench.kinds == [records.GROUP]
    assert run_at_once(bench.change().update_epoch(bench.old, bump=True)) == (3, True)


def test_an_epoch_that_did_not_come_into_the_log_is_made_again() -> None:
    bench = Bench(Member("a", topic_names=("t",)))
    run_at_once(bench.change().update_epoch(bench.old, bump=False))
    assert run_at_once(bench.change().update_epoch(bench.old, bump=False)) == (2, True)
    assert bench.kinds == [records.GROUP] * 2


def test_what_a_group_kept_of_its_topics_before_4_1_goes() -> None:
    bench = Bench(Member("a", topic_names=("t",)))
    bench.group.has_topics_record = True
    run_at_once(bench.change().update_epoch(bench.old, bump=False))
    assert bench.kinds == [records.GROUP, records.TOPICS]
    assert bench.records[1].value is None


def test_whether_all_read_the_same_counts_the_new_member() -> None:
    bench = Bench(Member("a", topic_names=("t",)))
    bench.old = Member("b")
    change = bench.change()
    assert run_at_once(change.update_epoch(replace(bench.old, topic_names=("t",)), bump=True)) == (
        2,
        True,
    )
    assert run_at_once(change.update_epoch(replace(bench.old, topic_names=("u",)), bump=True)) == (
        2,
        False,
    )


# -- members -----------------------------------------------------------------------------------


def test_only_a_change_is_recorded() -> None:
    bench = Bench(Member("a", topic_names=("t",)))
    assert not run_at_once(bench.change().update_member(bench.old))
    assert not run_at_once(bench.change().update_member(replace(bench.old, rack_id="r")))
    assert run_at_once(bench.change().update_member(replace(bench.old, topic_names=("u",))))
    assert bench.kinds == [records.MEMBER] * 2


def _left_behind(kit: ConsumerKit) -> None:
    """The member "c" takes over the instance id of "b", and its own expression stays."""
    c = kit.client("c", None, regex="u")
    c.join()
    b = kit.client("b", ["t"], instance_id="i")
    b.join()
    kit.advance(INTERVAL_MS)
    kit.settle(c, b)
    b.leave(-2)
    kit.client("c", ["t"], instance_id="i").join()


@pytest.mark.parametrize("regex", [None, "t"])
def test_an_expression_that_nobody_subscribes_to_any_more_goes(regex: str | None) -> None:
    kit = ConsumerKit(topics=FakeTopics(t=2, u=2))
    _left_behind(kit)
    assert list(kit.consumer_group().resolved) == ["u"]
    other = kit.client("d", ["t"] if regex is None else None, regex=regex)
    other.join()
    for _ in range(3):
        kit.advance(11_000)
        other.beat()
    group = kit.consumer_group()
    assert list(group.resolved) == ([] if regex is None else [regex])
    assert list(group.subscriptions) == ["t"]
    assert group.metadata_hash == run_at_once(TopicHashes(kit.known).of_group(["t"]))
    assert_sound(kit, group)


def test_such_an_expression_goes_with_the_last_member() -> None:
    kit = ConsumerKit(topics=FakeTopics(t=2, u=2))
    _left_behind(kit)
    kit.heartbeat("g", "c", -1, instance_id="i")
    group = kit.consumer_group()
    assert (group.members, group.resolved, group.subscriptions) == ({}, {}, {})
