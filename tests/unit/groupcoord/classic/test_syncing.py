"""SyncGroup in big groups; others are in tests/scenarios/classic_groups."""

from __future__ import annotations

from kavka.groupcoord.classic.group import GroupState
from kavka.groupcoord.classic.group_requests import SyncRequest
from kavka.log.journal import Decision, ReplyFuture
from kavka.wire.steps import ITEMS_PER_STEP
from support.classic_groups import ClassicKit, big_group
from support.steps import run_and_look


def test_an_assignment_is_stored_with_pauses() -> None:
    kit = ClassicKit()
    group = kit.shard.state.groups["g"] = big_group(kit, 2 * ITEMS_PER_STEP)
    group.current = GroupState.COMPLETING_REBALANCE
    assert isinstance(group.leader, str)
    assigned = {member_id: member_id.encode() for member_id in group.members}
    request = SyncRequest("g", 0, group.leader, None, "consumer", "range", assigned)
    made = kit.shard.classic.sync(request, ReplyFuture(), kit.now_ms)
    assert not isinstance(made, Decision)
    decision, pauses, _ = run_and_look(made)
    assert pauses == 6, "two each to assign, to collect and to encode"
    assert {member.member_id: member.assignment for member in group.members.values()} == assigned
    assert group.state(0) == "CompletingRebalance"
    kit.execute(decision)
    assert group.state(0) == "Stable"
