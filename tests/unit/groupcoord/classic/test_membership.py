"""Who may use the fast path of Heartbeat.

`ClassicKit.beat` asks both ways wherever groups are tested, and compares; how long the fast path
may be used is in tests/scenarios/classic_groups/leaving.txt.
"""

from __future__ import annotations

from typing import Any

import pytest

from kavka.groupcoord.classic.group_requests import HeartbeatRequest
from kavka.groupcoord.classic.membership import membership_of
from support.classic_groups import SESSION_MS, ClassicKit


@pytest.mark.parametrize(
    "wrong",
    [{"generation": 2}, {"member_id": "x"}, {"instance_id": "i"}, {"group_id": "other"}],
)
def test_only_heartbeats_that_match_the_group(wrong: dict[str, Any]) -> None:
    kit = ClassicKit()
    (member_id,) = kit.form()
    right = HeartbeatRequest("g", 1, member_id, None)
    assert membership_of(kit.shard.state, right) is not None
    assert membership_of(kit.shard.state, right._replace(**wrong)) is None


def test_not_a_heartbeat_that_shortens_the_session() -> None:
    kit = ClassicKit()
    (member_id,) = kit.form(session_ms=2 * SESSION_MS)
    kit.beat(member_id, 1)
    member = kit.group.members[member_id]
    member.session_timeout_ms = SESSION_MS
    kit.beat(member_id, 1)
    assert kit.shard.timers.at(member.timer) == kit.now_ms + SESSION_MS
    assert kit.fast_heartbeats == 0, "its deadline is before the one in the queue"
