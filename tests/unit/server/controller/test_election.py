"""Leader elections: examples, and what must hold of any election."""

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
from kavka.zktree.paths import StoredPartitionState

NO_LEADER = -1


def test_the_first_live_replica_leads_a_new_partition() -> None:
    assert first_state([3, 1], 7) == StoredPartitionState(3, 0, (3, 1), 7)
    assert first_state([], 7) is None


@pytest.mark.parametrize(
    ("leader", "isr", "live", "away", "expected"),
    [
        pytest.param(1, (1, 2), [1, 2], [], None, id="no change"),
        pytest.param(1, (1,), [1, 2], [], None, id="a replica outside the ISR changes nothing"),
        pytest.param(1, (1, 2), [2, 3], [], (2, (2,)), id="leader failed"),
        pytest.param(1, (1, 2, 3), [3, 2], [], (3, (2, 3)), id="the first live replica of the ISR"),
        pytest.param(1, (1, 2), [1, 3], [], (1, (1,)), id="follower failed"),
        pytest.param(1, (1, 2), [3], [], (NO_LEADER, (1, 2)), id="no clean leader: ISR is kept"),
        pytest.param(1, (1,), [], [], (NO_LEADER, (1,)), id="no live replica"),
        pytest.param(NO_LEADER, (1,), [2], [], None, id="still no clean leader"),
        pytest.param(NO_LEADER, (1, 2), [2, 1], [], (2, (1, 2)), id="the ISR is live again"),
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
    before = StoredPartitionState(leader, 5, isr, 1, leader_recovery_state=1)
    after = next_state(before, live=live, away_since=away, controller_epoch=2)
    if expected is None:
        assert after is None
    else:
        assert after == StoredPartitionState(
            expected[0], 6, expected[1], 2, leader_recovery_state=1
        )


brokers = st.integers(1, 5)
distinct = st.lists(brokers, unique=True, max_size=5)


@given(st.lists(brokers, unique=True, min_size=1), distinct, distinct, st.data())
def test_elections_are_clean(
    isr: list[int], live: list[int], away: list[int], data: st.DataObject
) -> None:
    leader = data.draw(st.sampled_from([NO_LEADER, *isr]))
    before = StoredPartitionState(leader, 0, tuple(isr), 1)
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
            assert not set(state.isr) & set(away), "a replica that was away may miss records"
        if state.leader in away:
            assert after is not None, "a restarted leader gets a new epoch"
    written_after_all = next_state(state, live=live, away_since=[], controller_epoch=2)
    assert written_after_all is None, "nothing is left to do after the write"


# Elections that clients ask for


def outcome(
    kind: str, state: StoredPartitionState | None, live: list[int]
) -> StoredPartitionState | ErrorCode:
    """Of a preferred or an unclean election among replicas 1, 2 and 3, in controller epoch 4."""
    try:
        if kind == "preferred":
            return preferred_state(state, replicas=(1, 2, 3), live=live, controller_epoch=4)
        return unclean_state(state, live=live, controller_epoch=4)
    except ApiError as error:
        return error.code


@pytest.mark.parametrize(
    ("leader", "isr", "live", "expected"),
    [
        pytest.param(2, (1, 2, 3), [1, 2], (1, (1, 2, 3)), id="the ISR stays"),
        pytest.param(1, (1, 2), [1, 2], ErrorCode.ELECTION_NOT_NEEDED, id="it leads"),
        pytest.param(1, (1, 2), [2], ErrorCode.ELECTION_NOT_NEEDED, id="it leads, and has failed"),
        pytest.param(2, (1, 2), [2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="dead"),
        pytest.param(2, (2,), [1, 2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="not in ISR"),
        pytest.param(-1, (2,), [1], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, id="unclean"),
    ],
)
def test_preferred_elections(
    leader: int,
    isr: tuple[int, ...],
    live: list[int],
    expected: tuple[int, tuple[int, ...]] | ErrorCode,
) -> None:
    found = outcome(
        "preferred", StoredPartitionState(leader, 5, isr, 1, leader_recovery_state=1), live
    )
    if isinstance(expected, tuple):
        assert found == StoredPartitionState(
            expected[0], 6, expected[1], 4, leader_recovery_state=1
        )
    else:
        assert found is expected


@pytest.mark.parametrize(
    ("leader", "isr", "live", "expected"),
    [
        pytest.param(-1, (3,), [2, 1], (2, (2,), 1), id="first live replica, recovering"),
        pytest.param(-1, (1, 3), [2, 1], (1, (1,), 0), id="a live member of the ISR"),
        pytest.param(1, (1,), [1, 2], ErrorCode.ELECTION_NOT_NEEDED, id="has a leader"),
        pytest.param(-1, (1,), [], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, id="all dead"),
    ],
)
def test_unclean_elections(
    leader: int,
    isr: tuple[int, ...],
    live: list[int],
    expected: tuple[int, tuple[int, ...], int] | ErrorCode,
) -> None:
    found = outcome("unclean", StoredPartitionState(leader, 5, isr, 1), live)
    if isinstance(expected, tuple):
        new_leader, new_isr, recovery = expected
        assert found == StoredPartitionState(
            new_leader, 6, new_isr, 4, leader_recovery_state=recovery
        )
    else:
        assert found is expected


def test_a_partition_without_a_state_has_no_leader_to_elect() -> None:
    assert outcome("preferred", None, [1]) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert outcome("unclean", None, [1]) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
