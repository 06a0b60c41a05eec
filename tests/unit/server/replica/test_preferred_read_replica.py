from __future__ import annotations

from functools import cmp_to_key
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState
from kavka.server.replica.preferred_read_replica import find_preferred_read_replica

LEADER, OFFSET = 1, 50
RACKS = ("a", "b")


class Follower(NamedTuple):
    broker_id: int
    rack: str | None
    in_sync: bool
    log_start: int
    log_end: int
    caught_up_ms: int


FOLLOWERS = st.lists(
    st.builds(
        Follower,
        broker_id=st.integers(2, 6),
        rack=st.sampled_from([*RACKS, None]),
        in_sync=st.booleans(),
        log_start=st.sampled_from([-1, 0, OFFSET, OFFSET + 1]),
        log_end=st.sampled_from([-1, OFFSET - 1, OFFSET, 60, 70]),
        caught_up_ms=st.integers(0, 2),
    ),
    unique_by=lambda follower: follower.broker_id,
)


def leading(followers: list[Follower]) -> PartitionState:
    state = PartitionState(LEADER, high_watermark=0, log_end=70)
    ids = tuple(follower.broker_id for follower in followers)
    isr = (LEADER, *(follower.broker_id for follower in followers if follower.in_sync))
    state.lead(LeaderAndIsrState(1, LEADER, 1, isr, 1, (LEADER, *ids)))
    for follower in followers:
        progress = state.followers[follower.broker_id]
        progress.log_start, progress.log_end = follower.log_start, follower.log_end
        progress.caught_up_ms = follower.caught_up_ms
    return state


def chosen_by_kafka(followers: list[Follower], leader_rack: str | None, rack: str) -> int | None:
    """`ReplicaManager.findPreferredReadReplica` with `RackAwareReplicaSelector`: the leader is one
    of the views, and its choice is no direction."""
    leader = Follower(LEADER, leader_rack, True, 0, 70, 2)
    views = [leader] + [
        follower
        for follower in followers
        if follower.in_sync and follower.log_end >= OFFSET and follower.log_start <= OFFSET
    ]

    def compare(follower: Follower, other: Follower) -> int:
        if follower.log_end != other.log_end:
            return 1 if follower.log_end > other.log_end else -1
        if follower.caught_up_ms != other.caught_up_ms:  # the time since then, reversed
            return 1 if follower.caught_up_ms > other.caught_up_ms else -1
        return 1 if follower.broker_id > other.broker_id else -1

    same_rack = [follower for follower in views if follower.rack == rack]
    if not same_rack or leader in same_rack:
        return None
    return max(same_rack, key=cmp_to_key(compare)).broker_id


@given(FOLLOWERS, st.sampled_from([*RACKS, None]), st.sampled_from([*RACKS, "c"]))
def test_it_is_the_one_that_apache_kafka_chooses(
    followers: list[Follower], leader_rack: str | None, rack: str
) -> None:
    racks = {follower.broker_id: follower.rack for follower in followers} | {LEADER: leader_rack}
    found = find_preferred_read_replica(leading(followers), OFFSET, rack, racks.get)
    assert found == chosen_by_kafka(followers, leader_rack, rack)


@pytest.mark.parametrize("proposed", [False, True])
def test_one_that_is_about_to_join_is_not_in_sync_yet(proposed: bool) -> None:
    state = leading([Follower(2, "a", False, 0, 60, 0), Follower(3, "a", True, 0, 55, 0)])
    if proposed:
        state.proposed_isr = (1, 2, 3)
    assert find_preferred_read_replica(state, OFFSET, "a", {1: "b", 2: "a", 3: "a"}.get) == 3


def test_a_follower_directs_nobody() -> None:
    state = leading([Follower(2, "a", True, 0, 60, 0)])
    state.follow(LeaderAndIsrState(1, 2, 2, (1, 2), 2, (1, 2)))
    assert find_preferred_read_replica(state, OFFSET, "a", {1: "b", 2: "a"}.get) is None
