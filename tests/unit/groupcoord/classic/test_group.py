"""What may be asked of a classic group, by the rules of offsets and of lists."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import Member, OfferedProtocol
from kavka.groupcoord.classic.records import NO_TIME, StoredGroup, StoredMember
from kavka.log.timers import Timers
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, run_at_once
from support.classic_groups import (
    BOTH,
    RANGE,
    SESSION_MS,
    STICKY,
    ClassicKit,
    big_group,
    reading,
)
from support.steps import run_and_look


def commit_code(
    group: ClassicGroup,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    try:
        group.check_commit(
            member_id, instance_id, generation, is_transactional=is_transactional, version=9
        )
    except ApiError as refusal:
        return refusal.code
    return ErrorCode.NONE


def test_who_may_commit_to_an_empty_group() -> None:
    group = ClassicGroup("g", Timers(), NO_TIME)
    assert commit_code(group) is ErrorCode.NONE
    assert commit_code(group, "m") is ErrorCode.NONE
    assert commit_code(group, "m", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(group, "", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_may_commit_to_a_group_with_members() -> None:
    kit = ClassicKit()
    leader, _ = kit.form(RANGE, RANGE)
    group = kit.group
    assert commit_code(group, leader, 1) is ErrorCode.NONE
    assert commit_code(group, leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(group, leader, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(group, "m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(group, leader, 1, "i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(group) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(group, is_transactional=True) is ErrorCode.NONE
    assert commit_code(group, "", 0, is_transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(group, "m", 1, is_transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_may_commit_while_others_join_but_not_while_they_sync() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.join(leader)
    assert commit_code(kit.group, follower, 1) is ErrorCode.NONE
    kit.join(follower)
    assert kit.group.current is GroupState.COMPLETING_REBALANCE
    assert commit_code(kit.group, follower, 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(kit.group, follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_code(kit.group, follower, 2, is_transactional=True) is ErrorCode.NONE


def test_a_fenced_instance_commits_nothing() -> None:
    kit = ClassicKit()
    old = kit.join(instance_id="i")
    kit.join(instance_id="i")
    assert commit_code(kit.group, old.answer.member_id, 0, "i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_commit_is_as_good_as_a_heartbeat() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.advance(SESSION_MS - 1)
    kit.group.committed_by(leader, kit.now_ms)
    kit.group.committed_by("somebody", kit.now_ms)
    kit.advance(SESSION_MS - 1)
    assert kit.beat(leader, 1) is ErrorCode.NONE


def test_groups_with_members_are_not_deleted() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    group = kit.group
    with pytest.raises(ApiError) as refused:
        group.check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    group.check_offset_delete()
    kit.leave(leader)
    group.check_delete()
    assert [one.key for one in group.tombstones()] == [b"\0\2\0\1g"]
    assert [one.value for one in group.tombstones()] == [None]


def test_offsets_of_other_kinds_of_members_stay_while_there_are_any() -> None:
    kit = ClassicKit()
    _, ticket = kit.join_twice(kind="connect")
    group = kit.group
    with pytest.raises(ApiError) as refused:
        group.check_offset_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    assert not group.is_subscribed_to("t")
    assert group.expires_since() is None, "nothing goes"
    assert not ticket.settled


def test_what_members_read() -> None:
    kit = ClassicKit()
    kit.form(RANGE, (OfferedProtocol("range", reading("u", "v")),))
    assert [kit.group.is_subscribed_to(one) for one in "tuvw"] == [True, True, True, False]
    assert kit.group.expires_since() == 0
    stored = kit.replayed().state.groups["g"]
    assert [stored.is_subscribed_to(one) for one in "tuvw"] == [True, True, True, False]


def test_what_can_not_be_read_may_be_any_topic() -> None:
    kit = ClassicKit()
    kit.form((OfferedProtocol("range", b"what?"),))
    assert kit.group.is_subscribed_to("w")
    assert kit.group.expires_since() is None


def test_nobody_reads_from_an_empty_group() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.leave(leader)
    assert not kit.group.is_subscribed_to("t")
    assert kit.group.expires_since() == kit.now_ms


def test_a_group_that_only_keeps_offsets() -> None:
    group = ClassicKit().shard.classic.simple_group("g")
    assert (group.kind, group.state(0), group.protocol_type) == ("classic", "Empty", "")
    assert group.expires_since() == 0
    assert not group.is_subscribed_to("t")
    group.check_fetch("anybody", 3)
    group.check_delete()
    group.check_offset_delete()


def test_votes() -> None:
    group = ClassicGroup("g", Timers(), NO_TIME)
    for index, protocols in enumerate([BOTH, STICKY + RANGE, STICKY + RANGE]):
        group.add(Member("g", f"m{index}", None, "c", "/h", 1, 1, protocols), "consumer", None)
    assert run_at_once(group.choose_protocol()) == "sticky"
    group.add(Member("g", "m3", None, "c", "/h", 1, 1, RANGE), "consumer", None)
    assert run_at_once(group.choose_protocol()) == "range", "all must have it"
    group.remove("m3")
    group.remove("m2")
    group.remove("m1")
    assert run_at_once(group.choose_protocol()) == "range"
    group.remove("m0")
    assert run_at_once(group.choose_protocol()) is None


def test_a_big_group_votes_in_steps() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_A_STEP)
    assert run_and_look(group.choose_protocol()) == ("range", 2, [])


def test_there_is_no_vote_where_there_is_no_choice() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_A_STEP)
    group.add(Member("g", "m", None, "c", "/h", 1, 1, STICKY), "consumer", None)
    assert run_and_look(group.choose_protocol()) == ("sticky", 0, [])


def test_another_leads_when_the_leader_goes() -> None:
    group = ClassicGroup("g", Timers(), NO_TIME)
    for name in "abc":
        group.add(Member("g", name, None, "c", "/h", 1, 1, RANGE), "consumer", None)
    assert group.leader == "a"
    group.remove("b")
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "c"
    group.remove("c")
    assert group.leader is None


def test_states_come_one_after_another() -> None:
    group = ClassicGroup("g", Timers(), NO_TIME)
    with pytest.raises(AssertionError, match="was Empty, not to be Stable"):
        group.enter(GroupState.STABLE, 1)
    group.enter(GroupState.PREPARING_REBALANCE, 7)
    assert (group.previous, group.since_ms) == (GroupState.EMPTY, 7)


def restored(stored: StoredGroup) -> ClassicGroup:
    group = ClassicGroup("g", Timers(), NO_TIME)
    run_at_once(group.restore(stored))
    return group


def test_odd_records() -> None:
    member = StoredMember("m", None, "c", "/h", 1, 1, b"", b"")
    stored = StoredGroup("", 3, None, "somebody", NO_TIME, [member, member])
    group = restored(stored)
    assert list(group.members) == ["m"]
    assert group.leader == "m"
    assert restored(stored._replace(members=[])).leader is None
