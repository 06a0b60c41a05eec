"""Conversions of groups are in `tests/scenarios/consumer_groups/migration.txt`."""

from __future__ import annotations

from kavka.groupcoord.classic.group_requests import HeartbeatRequest
from kavka.groupcoord.classic.membership import membership_of
from kavka.groupcoord.consumer import embedded_protocol
from support.consumer_groups import ConsumerKit


def test_an_upgrade_ends_the_fast_path_of_classic_heartbeats() -> None:
    kit = ConsumerKit()
    member_id, _ = kit.join_twice()
    kit.advance(kit.settings.group_initial_rebalance_delay_ms)
    kit.sync_all([member_id], {member_id: embedded_protocol.assignment({}, 1)})
    membership = membership_of(kit.shard.state, HeartbeatRequest("g", 1, member_id, None))
    assert membership is not None and membership.heartbeat(kit.now_ms)
    kit.client("c").join()
    assert not membership.heartbeat(kit.now_ms)
