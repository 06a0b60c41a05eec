"""A consumer group: what its members come to, and who may commit."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.groupcoord.consumer.group import ConsumerGroup, SubscriptionCount, is_homogeneous
from kavka.groupcoord.consumer.member import ClassicProtocols, Member, MemberState
from kavka.groupcoord.consumer.records import Resolved
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.refusals import refusal

T, U = UUID(int=1), UUID(int=2)
RANGE = ClassicProtocols(10_000, (("range", b""), ("roundrobin", b"")))


def group_of(*members: Member, epoch: int = 5) -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.group_epoch = group.assignment_epoch = epoch
    for member in members:
        group.put_member(member)
    return group


def commit(group: ConsumerGroup, member_id: str, epoch: int, **more: object) -> object:
    values = {"is_transactional": False, "version": 9, **more}
    instance = values.pop("instance_id", None)
    return group.check_commit(member_id, instance, epoch, **values)  # type: ignore[arg-type]


# -- states ------------------------------------------------------------------------------------


def test_states() -> None:
    group = ConsumerGroup("g")
    assert group.state(0) == "Empty"
    group.put_member(Member("m", 4))
    group.group_epoch, group.assignment_epoch = 5, 4
    assert group.state(0) == "Assigning"
    group.assignment_epoch = 5
    assert group.state(0) == "Reconciling"
    group.put_member(Member("m", 5))
    assert group.state(0) == "Stable"
    group.put_member(Member("n", 5, state=MemberState.UNRELEASED_PARTITIONS))
    assert group.state(0) == "Reconciling"
    group.remove_member("n")
    assert group.state(0) == "Stable"


# -- counts ------------------------------------------------------------------------------------


def test_subscriptions_by_name_and_by_expression() -> None:
    group = group_of(Member("a", topic_names=("t",)), Member("b", topic_names=("t", "u")))
    group.put_resolved("x.*", Resolved(("t", "x"), 1, 1))
    assert group.subscriptions == {
        "t": SubscriptionCount(2, 1),
        "u": SubscriptionCount(1, 0),
        "x": SubscriptionCount(0, 1),
    }
    group.put_resolved("x.*", Resolved(("x",), 2, 2))
    group.remove_member("b")
    assert group.subscriptions == {"t": SubscriptionCount(1, 0), "x": SubscriptionCount(0, 1)}
    assert group.is_subscribed_to("x")
    assert not group.is_subscribed_to("u")
    group.remove_resolved("x.*")
    assert not group.is_subscribed_to("x")


def test_what_would_be_if_a_member_changed() -> None:
    regex = Member("a", topic_regex="x.*")
    group = group_of(regex, Member("b", topic_names=("t",)))
    group.put_resolved("x.*", Resolved(("x",), 1, 1))
    assert run_at_once(group.subscriptions_with(regex, Member("a", topic_names=("t",)))) == {
        "t": SubscriptionCount(2, 0)
    }
    assert run_at_once(group.subscriptions_with(regex, regex)) == group.subscriptions
    assert run_at_once(group.subscriptions_without([regex])) == {"t": SubscriptionCount(1, 0)}
    assert group.regexes_with(regex, Member("a", topic_regex="y")) == {"y": 1}
    group.put_member(Member("c", topic_regex="x.*"))
    assert run_at_once(group.subscriptions_without([regex])) == group.subscriptions
    assert group.last_of({"x.*": 1}) == []
    assert group.last_of({"x.*": 2}) == ["x.*"]


def test_the_assignor_that_most_ask_for() -> None:
    group = group_of(
        Member("a", server_assignor="range"), Member("b", server_assignor="uniform"), Member("c")
    )
    assert group.preferred_assignor() == "range"
    new = Member("c", server_assignor="uniform")
    assert group.preferred_assignor(Member("c"), new) == "uniform"
    assert ConsumerGroup("g").preferred_assignor() is None


def test_members_of_the_classic_protocol_are_counted() -> None:
    group = group_of(Member("a", classic=RANGE), Member("b"))
    assert (group.classic_members, group.classic_protocols) == (1, {"range": 1, "roundrobin": 1})
    group.put_member(Member("a"))
    assert (group.classic_members, group.classic_protocols) == (0, {})


@pytest.mark.parametrize(
    ("regexes", "subscriptions", "members", "alike"),
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
def test_whether_all_read_the_same(
    regexes: dict[str, int], subscriptions: dict[str, tuple[int, int]], members: int, alike: bool
) -> None:
    counts = {topic: SubscriptionCount(*count) for topic, count in subscriptions.items()}
    assert is_homogeneous(regexes, counts, members) is alike


# -- owners ------------------------------------------------------------------------------------


def test_a_partition_belongs_to_a_member_until_it_is_given_up() -> None:
    group = group_of(Member("a", assigned={T: {0: 1}}, revoking={T: {1: 1}, U: {0: 1}}))
    assert group.has_owner(T, 0) and group.has_owner(T, 1) and group.has_owner(U, 0)
    group.put_member(Member("a", assigned={T: {0: 1}}))
    assert not group.has_owner(T, 1) and not group.has_owner(U, 0)
    group.release_member("a")
    assert group.owners == {}
    assert group.members["a"].member_epoch == -1


def test_records_may_come_in_another_order_out_of_a_compacted_log() -> None:
    group = group_of(Member("a", assigned={T: {0: 1}}))
    group.put_member(Member("b", 2, assigned={T: {0: 2}}))
    group.put_member(Member("a", 2))
    assert group.owners == {T: {0: "b"}}


def test_an_instance_belongs_to_the_last_member_that_had_it() -> None:
    group = group_of(Member("a", instance_id="i"), Member("b", instance_id="i"))
    group.remove_member("a")
    assert group.static_member("i") == Member("b", instance_id="i")
    group.remove_member("b")
    assert group.static_member("i") is None
    assert group.static_member(None) is None


# -- who may do what with offsets --------------------------------------------------------------


def test_commits_without_a_member() -> None:
    assert commit(ConsumerGroup("g"), "", -1) is None
    group = group_of(Member("a", 5))
    assert refusal(lambda: commit(group, "", -1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(group, "", -1, is_transactional=True) is None
    assert (
        refusal(lambda: commit(group, "", -1, is_transactional=True, instance_id="i"))
        is ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_commits_of_a_member() -> None:
    group = group_of(Member("a", 5), Member("c", 5, classic=RANGE))
    assert commit(group, "a", 5) is None
    assert refusal(lambda: commit(group, "a", 6)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(lambda: commit(group, "c", 6)) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: commit(group, "a", 5, version=8)) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(group, "a", 5, version=8, is_transactional=True) is None
    assert commit(group, "c", 5, version=1) is None
    assert refusal(lambda: commit(group, "b", 5)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_earlier_epoch_is_good_for_what_the_member_had_then() -> None:
    """KIP-1251."""
    member = Member("a", 5, assigned={T: {0: 3, 1: 5}}, revoking={U: {0: 2}})
    group = group_of(member)
    check = commit(group, "a", 4)
    assert callable(check)
    assert check("t", T, 0) is None
    assert check("u", U, 0) is None
    assert refusal(lambda: check("t", T, 1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(lambda: check("t", T, 2)) is ErrorCode.STALE_MEMBER_EPOCH


def test_fetches() -> None:
    group = group_of(Member("a", 5), Member("c", 5, classic=RANGE))
    group.check_fetch(None, -1)
    group.check_fetch("a", 5)
    assert refusal(lambda: group.check_fetch("a", 4)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(lambda: group.check_fetch("c", 6)) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: group.check_fetch("b", 5)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(lambda: group.check_fetch(None, 5)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_deletions() -> None:
    group = group_of(Member("a", 5))
    assert refusal(group.check_delete) is ErrorCode.NON_EMPTY_GROUP
    group.remove_member("a")
    group.check_delete()
    group.check_offset_delete()
    assert group.expires_since() == 0
