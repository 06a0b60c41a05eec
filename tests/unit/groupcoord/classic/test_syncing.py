"""SyncGroup: each member gets what the leader assigned, once that is stored."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.groupcoord.classic.group import GroupState
from kavka.groupcoord.classic.requests import SyncRequest
from kavka.log.journal import Decision, Ticket
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import ITEMS_A_STEP
from support.classic_groups import (
    DELAY_MS,
    RANGE,
    SESSION_MS,
    ClassicKit,
    assert_sound,
    big_group,
    code_of,
)
from support.steps import run_and_look


def joined(kit: ClassicKit, members: int = 2) -> list[str]:
    """Members that have joined and not synced; the leader in front."""
    pairs = [kit.join_twice() for _ in range(members)]
    kit.advance(2 * DELAY_MS)
    assert kit.group.current is GroupState.COMPLETING_REBALANCE
    return [member_id for member_id, _ in pairs]


def test_followers_wait_for_the_leader() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    assert not waiting.settled
    own = kit.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert (own.answer.assignment, waiting.answer.assignment) == (b"one", b"two")
    assert (own.answer.protocol_type, own.answer.protocol_name) == ("consumer", "range")
    assert kit.sync(follower, 1).answer.assignment == b"two", "again, if it asks again"


def test_nobody_is_told_before_it_is_stored() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    kit.holds = True
    own = kit.sync(leader, 1, {leader: b"one"})
    late = kit.sync(follower, 1)
    assert not any(one.settled for one in (own, waiting, late))
    kit.commit()
    assert all(one.settled for one in (own, waiting, late))


def test_members_that_get_nothing_get_nothing(caplog: pytest.LogCaptureFixture) -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    kit.sync(leader, 1, {leader: b"one", "somebody": b"else"})
    assert kit.sync(follower, 1).answer.assignment == b""
    assert "Setting empty assignments for members" in caplog.text
    assert kit.group.members[leader].assignment == b"one"


def test_a_big_group_syncs_in_steps() -> None:
    kit = ClassicKit()
    group = kit.shard.state.groups["g"] = big_group(kit, 2 * ITEMS_A_STEP)
    group.current = GroupState.COMPLETING_REBALANCE
    assert isinstance(group.leader, str)
    assigned = {one: one.encode() for one in group.members}
    request = SyncRequest("g", 0, group.leader, None, "consumer", "range", assigned)
    made = kit.shard.classic.sync(request, Ticket(), kit.now_ms)
    assert not isinstance(made, Decision)
    decision, pauses, _ = run_and_look(made)
    assert pauses == 6, "two to tell, to store and to write"
    assert {one.member_id: one.assignment for one in group.members.values()} == assigned
    assert group.state(0) == "CompletingRebalance"
    kit.carry_out(decision)
    assert group.state(0) == "Stable"


def test_what_a_follower_assigns_does_not_count() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    kit.sync(follower, 1, {follower: b"all"})
    assert kit.group.current is GroupState.COMPLETING_REBALANCE
    kit.sync(leader, 1, {})
    assert kit.sync(follower, 1).answer.assignment == b""


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"kind": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"kind": None, "protocol": None}, ErrorCode.NONE),
    ],
)
def test_wrong_fields(values: dict[str, Any], code: ErrorCode) -> None:
    kit = ClassicKit()
    (leader,) = joined(kit, 1)
    ticket = kit.sync(**{"member_id": leader, "generation": 1, **values})
    assert code_of(ticket) is code
    if code:
        assert (ticket.answer.protocol_type, ticket.answer.assignment) == (None, b"")


def test_during_a_rebalance() -> None:
    kit = ClassicKit()
    leader, _ = kit.form(RANGE, RANGE)
    kit.join(leader)
    assert code_of(kit.sync(leader, 1)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_in_an_empty_group() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.leave(leader)
    assert code_of(kit.sync(leader, 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_those_that_wait_hear_of_a_rebalance() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    kit.leave(leader)
    assert code_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.join(follower).answer.leader == follower


def test_one_that_is_made_to_leave_hears_of_it() -> None:
    kit = ClassicKit()
    _, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    kit.leave(follower)
    assert code_of(waiting) is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_asks_twice_is_answered_twice() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    first = kit.sync(follower, 1)
    second = kit.sync(follower, 1)
    assert code_of(first) is ErrorCode.REBALANCE_IN_PROGRESS
    kit.sync(leader, 1, {follower: b"two"})
    assert second.answer.assignment == b"two"


def test_an_assignment_that_can_not_be_stored() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    kit.port.failures = [ErrorCode.MESSAGE_TOO_LARGE]
    own = kit.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert code_of(own) is code_of(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert kit.group.current is GroupState.PREPARING_REBALANCE
    assert_sound(kit.group, kit)
    tickets = [kit.join(leader), kit.join(follower)]
    assert [one.answer.generation_id for one in tickets] == [2, 2]


def test_an_assignment_that_is_stored_too_late() -> None:
    kit = ClassicKit()
    leader, follower = joined(kit)
    waiting = kit.sync(follower, 1)
    kit.holds = True
    own = kit.sync(leader, 1, {leader: b"one", follower: b"two"})
    kit.advance(SESSION_MS - 1)
    assert code_of(own) is code_of(waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    kit.holds = False
    kit.commit()
    assert kit.sync(follower, 1).answer.assignment == b"two", "it is what the log says"
