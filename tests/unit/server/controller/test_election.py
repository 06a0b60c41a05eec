"""Who leads: by example, and what must hold of any election."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.server.controller.election import (
    first_state,
    next_state,
    preferred_state,
    unclean_state,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.paths import PartitionState

NO_LEADER = -1


def test_the_first_live_replica_leads_a_new_partition() -> None:
    assert first_state([3, 1], 7) == PartitionState(3, 0, (3, 1), 7)
    assert first_state([], 7) is None


@pytest.mark.parametrize(
    ("leader", "isr", "live", "away", "expected"),
    [
        pytest.param(1, (1, 2), [1, 2], [], None, id="all is well"),
        pytest.param(1, (1,), [1, 2], [], None, id="a replica outside the ISR changes nothing"),
        pytest.param(1, (1, 2), [2, 3], [], (2, (2,)), id="leader gone"),
        pytest.param(1, (1, 2, 3), [3, 2], [], (3, (2, 3)), id="the preferred of those left"),
        pytest.param(1, (1, 2), [1, 3], [], (1, (1,)), id="follower gone"),
        pytest.param(1, (1, 2), [3], [], (NO_LEADER, (1, 2)), id="no clean leader: ISR is kept"),
        pytest.param(1, (1,), [], [], (NO_LEADER, (1,)), id="nobody left"),
        pytest.param(NO_LEADER, (1,), [2], [], None, id="still no clean leader"),
        pytest.param(NO_LEADER, (1, 2), [2, 1], [], (2, (1, 2)), id="the ISR is back"),
        pytest.param(1, (1,), [1], [1], (1, (1,)), id="lone leader restarted: new epoch"),
        pytest.param(1, (1, 2), [1, 2], [1], (2, (2,)), id="leader restarted: the other leads"),
        pytest.param(1, (1, 2), [1, 2], [2], (1, (1,)), id="follower restarted: out of the ISR"),
        pytest.param(1, (1, 2), [1, 2], [1, 2], (1, (1, 2)), id="all restarted: ISR is kept"),
        pytest.param(1, (1, 2), [2, 3], [2], (2, (2,)), id="only a restarted one is left"),
    ],
)
def test_elections(
    leader: int,
    isr: tuple[int, ...],
    live: list[int],
    away: list[int],
    expected: tuple[int, tuple[int, ...]] | None,
) -> None:
    before = PartitionState(leader, 5, isr, 1, leader_recovery_state=1)
    after = next_state(before, live=live, away_since=away, controller_epoch=2)
    if expected is None:
        assert after is None
    else:
        assert after == PartitionState(expected[0], 6, expected[1], 2, leader_recovery_state=1)


brokers = st.integers(1, 5)
distinct = st.lists(brokers, unique=True, max_size=5)


@given(st.lists(brokers, unique=True, min_size=1), distinct, distinct, st.data())
def test_any_election_is_clean(
    isr: list[int], live: list[int], away: list[int], data: st.DataObject
) -> None:
    leader = data.draw(st.sampled_from([NO_LEADER, *isr]))
    before = PartitionState(leader, 0, tuple(isr), 1)
    away = [broker for broker in away if broker in live]
    after = next_state(before, live=live, away_since=away, controller_epoch=2)
    state = after or before
    if after is not None:
        assert after.leader_epoch == 1
        assert after.isr and set(after.isr) <= set(isr), "an election never adds to the ISR"
    clean = set(isr) & set(live)
    assert (state.leader in clean) == bool(clean)
    if state.leader != NO_LEADER:
        assert state.leader in state.isr
        assert set(state.isr) <= set(live)
        if clean - set(away):
            assert not set(state.isr) & set(away), "who was away may miss what others have"
        if state.leader in away:
            assert after is not None, "a restarted leader gets a new epoch"
    written_after_all = next_state(state, live=live, away_since=[], controller_epoch=2)
    assert written_after_all is None, "nothing is left to do once it is written"


# -- elections that somebody asks for -------------------------------------------------------


def test_the_preferred_replica_takes_over_and_the_isr_stays() -> None:
    before = PartitionState(2, 5, (1, 2, 3), 1, leader_recovery_state=1)
    after = preferred_state(before, replicas=(1, 2, 3), live=[1, 2], controller_epoch=4)
    assert after == PartitionState(1, 6, (1, 2, 3), 4, leader_recovery_state=1)


@pytest.mark.parametrize(
    ("leader", "isr", "live", "code"),
    [
        pytest.param(1, (1, 2), [1, 2], ErrorCode.ELECTION_NOT_NEEDED, id="it leads"),
        pytest.param(1, (1, 2), [2], ErrorCode.ELECTION_NOT_NEEDED, id="and is about to go"),
        pytest.param(2, (1, 2), [2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="dead"),
        pytest.param(2, (2,), [1, 2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="not in sync"),
        pytest.param(NO_LEADER, (2,), [1], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="unclean"),
    ],
)
def test_no_preferred_leader(
    leader: int, isr: tuple[int, ...], live: list[int], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as refusal:
        preferred_state(
            PartitionState(leader, 5, isr, 1), replicas=(1, 2), live=live, controller_epoch=1
        )
    assert refusal.value.code is code


@pytest.mark.parametrize(
    ("isr", "live", "leader", "after_isr", "recovery"),
    [
        pytest.param((3,), [2, 1], 2, (2,), 1, id="the preferred of those alive, recovering"),
        pytest.param((1, 3), [2, 1], 1, (1,), 0, id="one that is in sync, if there is one"),
    ],
)
def test_any_replica_leads_where_none_does(
    isr: tuple[int, ...], live: list[int], leader: int, after_isr: tuple[int, ...], recovery: int
) -> None:
    before = PartitionState(NO_LEADER, 5, isr, 1)
    after = unclean_state(before, live=live, controller_epoch=4)
    assert after == PartitionState(leader, 6, after_isr, 4, leader_recovery_state=recovery)


def test_no_unclean_leader() -> None:
    for state, live, code in (
        (PartitionState(1, 5, (1,), 1), [1, 2], ErrorCode.ELECTION_NOT_NEEDED),
        (PartitionState(NO_LEADER, 5, (1,), 1), [], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (None, [1], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        with pytest.raises(ApiError) as refusal:
            unclean_state(state, live=live, controller_epoch=1)
        assert refusal.value.code is code
    with pytest.raises(ApiError) as refusal:
        preferred_state(None, replicas=(1,), live=[1], controller_epoch=1)
    assert refusal.value.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
