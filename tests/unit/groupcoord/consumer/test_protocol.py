"""Consumer groups as a whole: after a change of the coordinator, when topics change, described."""

from __future__ import annotations

from kavka.groupcoord.consumer.group_index import TOPICS_A_SLICE
from kavka.wire.errors import ErrorCode
from support.consumer_groups import (
    REBALANCE_MS,
    SESSION_MS,
    ConsumerKit,
    FakeTopics,
    assert_sound,
    contents,
)
from support.refusals import refusal


def test_groups_go_on_at_another_coordinator() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    before = contents(kit.consumer_group())
    kit.move()
    assert contents(kit.consumer_group()) == before
    answer = first.beat()
    assert (answer.member_epoch, answer.assignment) == (first.epoch, None)
    second.beat()
    assert kit.consumer_group().group_epoch == 3, "the topics are the same"


def test_members_have_a_whole_session_after_a_move() -> None:
    kit = ConsumerKit()
    first, _ = kit.joined("a", "b")
    kit.advance(SESSION_MS - 1)
    kit.move()
    kit.advance(SESSION_MS - 1)
    assert list(kit.consumer_group().members) == ["a", "b"]
    first.beat()
    kit.advance(1)
    assert list(kit.consumer_group().members) == ["a"]


def test_who_has_to_give_up_has_a_whole_rebalance_timeout_after_a_move() -> None:
    kit = ConsumerKit(group_consumer_session_timeout_ms=10 * REBALANCE_MS)
    (first,) = kit.joined("a")
    kit.client("b").join()
    first.beat()
    kit.advance(REBALANCE_MS - 1)
    kit.move()
    kit.advance(REBALANCE_MS - 1)
    assert "a" in kit.consumer_group().members
    kit.advance(1)
    assert "a" not in kit.consumer_group().members


def test_new_partitions_are_assigned() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    kit.known.counts["t"] = 6
    kit.change_topics("t")
    first.beat()
    assert len(first.partitions) == 6


def test_a_change_that_makes_no_difference_is_none() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    kit.change_topics("t", "other")
    first.beat()
    assert kit.consumer_group().group_epoch == 2


def test_a_deleted_topic_is_taken_away() -> None:
    kit = ConsumerKit()
    kit.known.make("u", 1)
    (first,) = kit.joined("a", topics=["t", "u"])
    kit.known.delete("u")
    kit.change_topics("u")
    kit.settle(first)
    assert first.partitions == [("t", number) for number in range(4)]
    assert_sound(kit, kit.consumer_group())


def test_a_topic_that_is_made_again_is_another_one() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    kit.known.delete("t")
    kit.known.make("t", 1)
    kit.change_topics("t")
    kit.settle(first)
    assert first.partitions == [("t", 0)]


def test_an_expression_finds_a_topic_that_comes_later() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a", topics=None, regex="t.*")
    kit.settle(first)
    kit.known.make("tt", 1)
    kit.change_topics("tt")
    kit.advance(10_000)
    kit.settle(first)
    assert ("tt", 0) in first.partitions


def test_expressions_are_not_resolved_for_topics_that_do_not_concern_them() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a", topics=None, regex="t.*")
    kit.settle(first)
    resolved = kit.consumer_group().resolved["t.*"]
    kit.known.make("u", 1)
    kit.change_topics("u", "t")
    kit.advance(10_000)
    kit.settle(first)
    assert kit.consumer_group().resolved["t.*"] == resolved


def test_expressions_are_resolved_now_and_then_anyway() -> None:
    kit = ConsumerKit(group_consumer_regex_refresh_interval_ms=20_000)
    (first,) = kit.joined("a", topics=None, regex="t.*")
    kit.settle(first)
    kit.known.make("tt", 1)  # and nobody tells
    kit.advance(20_000)
    kit.settle(first)
    assert ("tt", 0) in first.partitions


def test_a_group_that_is_gone_before_its_expression_is_resolved() -> None:
    kit = ConsumerKit()
    member = kit.client("a", None, regex="t")
    member.join()
    member.leave()
    kit.advance(10_000)
    assert kit.consumer_group().resolved == {}


def test_described() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b", topics=["t", "nothing"])
    described = kit.shard.consumer.describe("g", kit.now_ms)
    assert described[:5] == ("g", "Stable", 3, 3, "uniform")
    assert [member.member_id for member, _ in described.members] == ["a", "b"]
    shall = [kit.named(target) for _, target in described.members]
    assert shall == [first.partitions, second.partitions]
    code = refusal(lambda: kit.shard.consumer.describe("other", kit.now_ms))
    assert code is ErrorCode.GROUP_ID_NOT_FOUND


def test_many_changes_are_taken_in_slices() -> None:
    kit = ConsumerKit(topics=FakeTopics(t=1))
    names = [f"t{number}" for number in range(2 * TOPICS_A_SLICE + 1)]
    assert len(list(kit.shard.consumer.metadata_changed(names, 0))) == 3
    assert not kit.shard.consumer.tickets()
