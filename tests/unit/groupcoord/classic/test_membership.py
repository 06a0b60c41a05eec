"""What was looked up for one Heartbeat holds for the next as long as the group is the same.

`ClassicKit.beat` asks both ways each time, wherever groups are tested, and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.groupcoord.classic.membership import membership_of
from kavka.groupcoord.classic.requests import HeartbeatRequest
from kavka.wire.errors import ErrorCode
from support.classic_groups import BOTH, RANGE, SESSION_MS, ClassicKit, code_of


def pair(kit: ClassicKit) -> tuple[str, str]:
    """A stable group of two, whose heartbeats are remembered."""
    leader, follower = kit.form(RANGE, RANGE)
    for _ in range(2):
        assert kit.beat(leader, 1) is kit.beat(follower, 1) is ErrorCode.NONE
    assert kit.told == 2
    return leader, follower


def test_the_session_is_over_a_session_after_the_last() -> None:
    kit = ClassicKit()
    leader, follower = pair(kit)
    kit.advance(SESSION_MS - 1)
    kit.beat(leader, 1)
    kit.advance(1)
    assert list(kit.group.members) == [leader]
    kit.advance(SESSION_MS - 2)
    assert leader in kit.group.members
    kit.advance(1)
    assert not kit.group.members
    assert kit.told == 3


def leaves(kit: ClassicKit, leader: str, follower: str) -> None:
    kit.leave(follower)


def joins_anew(kit: ClassicKit, leader: str, follower: str) -> None:
    for one in (leader, follower):
        kit.join(one, protocols=BOTH)


def another_joins(kit: ClassicKit, leader: str, follower: str) -> None:
    kit.join_twice()


def stalls(kit: ClassicKit, leader: str, follower: str) -> None:
    kit.advance(SESSION_MS)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (leaves, ErrorCode.UNKNOWN_MEMBER_ID),
        (joins_anew, ErrorCode.ILLEGAL_GENERATION),
        (another_joins, ErrorCode.REBALANCE_IN_PROGRESS),
        (stalls, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_it_is_looked_up_anew_when_the_group_has_changed(
    change: Callable[[ClassicKit, str, str], None], code: ErrorCode
) -> None:
    kit = ClassicKit()
    leader, follower = pair(kit)
    change(kit, leader, follower)
    assert kit.beat(follower, 1) is code
    assert kit.told == 2


def test_a_static_member_that_is_replaced_is_fenced_in_the_same_generation() -> None:
    kit = ClassicKit()
    first = kit.join(instance_id="i")
    kit.advance(kit.settings.group_initial_rebalance_delay_ms)
    old = first.answer.member_id
    kit.sync(old, 1, {old: b"all"}, instance_id="i")
    for _ in range(2):
        assert kit.beat(old, 1, "i") is ErrorCode.NONE
    assert kit.told == 1
    again = kit.join(instance_id="i")
    assert (code_of(again), again.answer.generation_id) == (ErrorCode.NONE, 1)
    assert kit.beat(old, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert kit.beat(again.answer.member_id, 1, "i") is ErrorCode.NONE
    assert kit.told == 1


@pytest.mark.parametrize(
    "wrong",
    [{"generation": 2}, {"member_id": "somebody"}, {"instance_id": "i"}, {"group_id": "other"}],
)
def test_only_who_is_told_that_all_is_well_has_one(wrong: dict[str, Any]) -> None:
    kit = ClassicKit()
    (member_id,) = kit.form()
    right = HeartbeatRequest("g", 1, member_id, None)
    assert membership_of(kit.shard.state, right) is not None
    assert membership_of(kit.shard.state, right._replace(**wrong)) is None


def test_a_session_that_was_cut_short_is_prolonged() -> None:
    kit = ClassicKit()
    (member_id,) = kit.form(session_ms=2 * SESSION_MS)
    kit.beat(member_id, 1)
    kit.group.members[member_id].session_timeout_ms = SESSION_MS
    kit.beat(member_id, 1)
    assert kit.shard.timers.at(kit.group.members[member_id].timer) == kit.now_ms + SESSION_MS
    assert kit.told == 0, "it comes before what it is queued for"
