"""ConsumerGroupHeartbeat: joining, epochs, static members, leaving. What is expected is KIP-848's;
codes and words are judged by the differential test too."""

from __future__ import annotations

import random
from dataclasses import replace

from kavka.groupcoord.consumer import records
from kavka.groupcoord.consumer.heartbeats import random_id
from kavka.groupcoord.consumer.member import MemberState
from kavka.log.journal import Decision
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.consumer_groups import INTERVAL_MS, REBALANCE_MS, ConsumerKit, assert_sound
from support.refusals import refusal

T0, T1, T2, T3 = (("t", number) for number in range(4))


# -- joining -----------------------------------------------------------------------------------


def test_the_first_member_gets_all() -> None:
    kit = ConsumerKit()
    member = kit.client("a")
    answer = member.join()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5000)
    assert member.partitions == [T0, T1, T2, T3]
    assert kit.consumer_group().state(kit.now_ms) == "Stable"
    assert_sound(kit, kit.consumer_group())


def test_a_member_without_an_id_is_given_one() -> None:
    kit = ConsumerKit()
    answer = kit.client("").join()
    assert list(kit.consumer_group().members) == [answer.member_id]
    assert len(answer.member_id) == 22


def test_ids_do_not_begin_with_a_dash() -> None:
    drawn = random.Random(5)
    assert not any(random_id(drawn).startswith("-") for _ in range(1000))


def test_the_second_member_waits_until_the_first_has_given_up() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    second = kit.client("b")
    second.join()
    assert (second.epoch, second.partitions) == (3, [])
    assert kit.consumer_group().state(kit.now_ms) == "Reconciling"
    told = first.beat()
    assert (told.member_epoch, first.partitions) == (2, [T0, T1])
    assert second.beat().assignment is None
    told = first.beat()
    assert (told.member_epoch, told.assignment) == (3, None)
    second.beat()
    assert second.partitions == [T2, T3]
    assert kit.consumer_group().state(kit.now_ms) == "Stable"
    assert_sound(kit, kit.consumer_group())


def test_changes_within_the_interval_are_assigned_together() -> None:
    """KIP-1263."""
    kit = ConsumerKit()
    first, second, third = (kit.client(name) for name in "abc")
    first.join()
    second.join()
    third.join()
    group = kit.consumer_group()
    assert (group.group_epoch, group.assignment_epoch) == (4, 2)
    assert group.state(kit.now_ms) == "Assigning"
    kit.advance(INTERVAL_MS - 1)
    first.beat()
    assert group.assignment_epoch == 2
    kit.advance(1)
    first.beat()
    assert group.assignment_epoch == 4
    kit.settle(first, second, third)
    assert sorted(len(one.partitions) for one in (first, second, third)) == [1, 1, 2]


def test_without_an_interval_each_change_is_assigned_at_once() -> None:
    kit = ConsumerKit(group_consumer_assignment_interval_ms=0)
    kit.client("a").join()
    kit.client("b").join()
    assert kit.consumer_group().assignment_epoch == 3


def test_a_group_has_a_greatest_size() -> None:
    kit = ConsumerKit(group_consumer_max_size=1)
    (first,) = kit.joined("a")
    assert refusal(kit.client("b").join) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal(kit.client("").join) is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.beat()
    first.join()


def test_the_assignor_that_most_ask_for_assigns() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("b", "a", assignor="range")
    assert (second.partitions, first.partitions) == ([T0, T1], [T2, T3])
    assert kit.shard.consumer.describe("g", kit.now_ms).assignor == "range"


# -- staying -----------------------------------------------------------------------------------


def test_a_heartbeat_that_tells_nothing_changes_nothing() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    before = len(kit.port.batches)
    answer = member.idle()
    assert (answer.member_epoch, answer.assignment) == (2, None)
    member.beat()
    assert len(kit.port.batches) == before


def test_a_full_heartbeat_is_told_everything() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    answer = member.beat(topic_names=["t"], rebalance_timeout_ms=REBALANCE_MS)
    assert answer.assignment is not None


def test_what_a_member_says_of_itself_is_stored() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    member.beat(rack_id="r", client_id="d", client_host="/10.0.0.1", rebalance_timeout_ms=5)
    stored = kit.member("a")
    assert (stored.rack_id, stored.client_id, stored.client_host) == ("r", "d", "/10.0.0.1")
    assert stored.rebalance_timeout_ms == 5
    assert kit.consumer_group().group_epoch == 2, "what it reads is the same"
    assert_sound(kit, kit.consumer_group())


def test_other_topics_are_another_epoch() -> None:
    kit = ConsumerKit()
    kit.known.make("u", 1)
    (member,) = kit.joined("a")
    told = member.beat(topic_names=["u"])
    assert (told.member_epoch, member.partitions) == (2, [])
    member.beat()
    assert (member.epoch, member.partitions) == (3, [("u", 0)])


def test_topics_that_do_not_exist_are_waited_for() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a", topics=["later"])
    assert (member.epoch, member.partitions) == (2, [])
    kit.known.make("later", 2)
    kit.change_topics("later")
    member.beat()
    assert (member.epoch, member.partitions) == (3, [("later", 0), ("later", 1)])


# -- epochs ------------------------------------------------------------------------------------


def test_epochs_that_are_not_the_members() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    member.epoch = 3
    assert refusal(member.beat) is ErrorCode.FENCED_MEMBER_EPOCH
    member.epoch = 1
    assert refusal(member.beat) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_good_if_the_answer_was_lost() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    epoch, owned = first.epoch, first.owned
    second.leave()
    kit.advance(INTERVAL_MS)
    first.beat()
    assert len(first.partitions) == 4
    first.epoch, first.owned = epoch, owned
    assert (
        first.beat(topic_names=["t"], rebalance_timeout_ms=REBALANCE_MS).member_epoch == epoch + 1
    )
    assert len(first.partitions) == 4
    first.epoch = epoch
    assert refusal(first.idle) is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"


def test_a_fenced_member_joins_anew_under_its_id() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    first.join()
    assert first.epoch == 3
    assert len(first.partitions) == 2
    assert len(second.partitions) == 2


def test_unknown_members_and_groups() -> None:
    kit = ConsumerKit()
    member = kit.client("a")
    member.epoch = 1
    assert refusal(member.beat) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(member.leave) is ErrorCode.GROUP_ID_NOT_FOUND
    kit.joined("b")
    assert refusal(member.beat) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(member.leave) is ErrorCode.UNKNOWN_MEMBER_ID


# -- regular expressions -----------------------------------------------------------------------


def test_topics_by_expression_come_with_a_later_heartbeat() -> None:
    kit = ConsumerKit()
    kit.known.make("tt", 1)
    member = kit.client("a", None, regex="t+")
    answer = member.join()
    assert (answer.member_epoch, answer.assignment) == (1, {})
    kit.advance(0)
    member.beat()
    assert member.partitions == [T0, T1, T2, T3, ("tt", 0)]
    assert_sound(kit, kit.consumer_group())


def test_a_bad_expression_is_refused_and_nobody_joins() -> None:
    kit = ConsumerKit()
    member = kit.client("a", None, regex="(")
    assert refusal(member.join) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "g" not in kit.shard.state.groups
    assert not kit.port.batches


def test_an_expression_that_others_have_counts_at_once() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a", topics=None, regex="t")
    kit.settle(first)
    second = kit.client("b", None, regex="t")
    second.join()
    assert kit.consumer_group().targets["b"] != {}
    kit.settle(first, second)
    assert len(second.partitions) == 2


def test_names_in_the_place_of_an_expression() -> None:
    kit = ConsumerKit()
    kit.known.make("u", 1)
    (member,) = kit.joined("a", topics=None, regex="t")
    kit.settle(member)
    member.beat(topic_regex="", topic_names=["u"])
    kit.settle(member)
    assert member.partitions == [("u", 0)]
    assert kit.consumer_group().resolved == {}


# -- static members ----------------------------------------------------------------------------


def test_an_instance_that_is_in_use_is_not_given_away() -> None:
    kit = ConsumerKit()
    kit.joined("a", instance_id="i")
    code = refusal(kit.client("b", instance_id="i").join)
    assert code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_an_instance_that_comes_back_has_its_partitions_at_once() -> None:
    kit = ConsumerKit()
    first, other = kit.joined("a", instance_id="i")[0], None
    (other,) = kit.joined("o")
    kit.settle(first, other)
    had = first.partitions
    assert first.leave(-2).member_epoch == -2
    group = kit.consumer_group()
    epoch = group.group_epoch
    assert group.members["a"].member_epoch == -2
    again = kit.client("b", instance_id="i")
    again.join()
    assert again.partitions == had
    assert (group.group_epoch, list(group.members)) == (epoch, ["o", "b"])
    assert_sound(kit, group)


def test_an_instance_that_comes_back_reading_other_topics() -> None:
    kit = ConsumerKit()
    kit.known.make("u", 2)
    (first,) = kit.joined("a", instance_id="i")
    first.leave(-2)
    kit.advance(INTERVAL_MS)
    again = kit.client("b", ["u"], instance_id="i")
    again.join()
    kit.settle(again)
    assert again.partitions == [("u", 0), ("u", 1)]


def test_an_instance_is_fenced_by_another_member() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a", instance_id="i")
    stranger = kit.client("x", instance_id="i")
    stranger.epoch = 2
    assert refusal(stranger.beat) is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(stranger.leave) is ErrorCode.FENCED_INSTANCE_ID
    unknown = kit.client("a", instance_id="j")
    unknown.epoch = 2
    assert refusal(unknown.beat) is ErrorCode.UNKNOWN_MEMBER_ID
    first.epoch += 1
    assert refusal(first.beat) is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_instance_that_does_not_come_back_is_given_up() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    (instance,) = kit.joined("c", instance_id="i")
    kit.settle(first, second, instance)
    instance.leave(-2)
    for _ in range(5):
        kit.advance(10_000)
        kit.settle(first, second)
    assert sorted(first.partitions + second.partitions) == [T0, T1, T2, T3]
    assert kit.consumer_group().static_members == {}


# -- leaving -----------------------------------------------------------------------------------


def test_who_leaves_is_gone_at_once() -> None:
    kit = ConsumerKit()
    first, second = kit.joined("a", "b")
    answer = second.leave()
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("b", -1, None)
    assert list(kit.consumer_group().members) == ["a"]
    kit.settle(first)
    assert len(first.partitions) == 4


def test_an_instance_leaves_for_good() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a", instance_id="i")
    first.leave()
    group = kit.consumer_group()
    assert (group.state(kit.now_ms), group.static_members) == ("Empty", {})
    assert_sound(kit, group)


# -- when it can't be stored -------------------------------------------------------------------


def test_nothing_has_happened_if_it_can_not_be_stored() -> None:
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(kit.client("b").join) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(kit.consumer_group().members) == ["a"]
    first.beat()
    second = kit.client("b")
    second.join()
    assert second.epoch == 3


def test_a_new_epoch_that_could_not_be_stored_comes_with_the_next_heartbeat() -> None:
    kit = ConsumerKit()
    (member,) = kit.joined("a")
    kit.known.counts["t"] = 6
    kit.change_topics("t")
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert refusal(member.beat) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    member.beat()
    assert len(member.partitions) == 6


def test_answers_wait_until_they_are_committed() -> None:
    kit = ConsumerKit()
    kit.holds = True
    ticket = kit.send("g", "a", 0, topic_names=["t"], rebalance_timeout_ms=1, reported={})
    assert not ticket.settled
    kit.commit()
    assert ticket.settled
    assert kit.member("a").state is MemberState.STABLE


def test_an_assignor_that_only_another_broker_has_is_as_none() -> None:
    """A record of a member may ask for one of a broker that had more of them."""
    kit = ConsumerKit()
    (first,) = kit.joined("a")
    theirs = replace(kit.member("a"), server_assignor="com.example.Own")
    decision = Decision([run_at_once(records.member_in_steps("g", theirs))])
    run_at_once(kit.journal.carry_out_in_steps(decision, kit.now_ms))
    second = kit.client("b")
    second.join()
    kit.settle(first, second)
    assert [len(first.partitions), len(second.partitions)] == [2, 2]


def test_a_member_that_comes_as_another_instance_is_the_earlier_one_no_more() -> None:
    kit = ConsumerKit()
    for instance_id in ("i", "j", "k"):
        kit.client("a", instance_id=instance_id).join()
    assert kit.consumer_group().static_members == {"k": "a"}
    assert_sound(kit, kit.consumer_group())
