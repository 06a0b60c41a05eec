"""From one generation to the next: who is waited for, and how long."""

from __future__ import annotations

import logging

import pytest

from kavka.groupcoord.classic.group import GroupState
from kavka.groupcoord.classic.rebalancing import joined_members
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, run_at_once
from support.classic_groups import (
    BOTH,
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicKit,
    assert_sound,
    big_group,
    code_of,
)
from support.journal_kit import START_MS
from support.steps import run_and_look


def test_the_first_rebalance_waits_for_more_members() -> None:
    kit = ClassicKit()
    _, ticket = kit.join_twice()
    kit.advance(DELAY_MS - 1)
    assert not ticket.settled
    kit.advance(1)
    assert ticket.settled


def test_it_waits_as_long_again_if_some_came() -> None:
    kit = ClassicKit()
    _, first = kit.join_twice()
    kit.advance(DELAY_MS - 1)
    _, second = kit.join_twice()
    kit.advance(DELAY_MS)
    assert not first.settled
    kit.advance(1)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert kit.now_ms == START_MS + 2 * DELAY_MS


def test_it_waits_no_longer_than_a_rebalance_may_take() -> None:
    kit = ClassicKit()
    _, first = kit.join_twice(rebalance_ms=2 * DELAY_MS)
    last = first
    for _ in range(2):  # someone new in each part of it
        assert not first.settled
        _, last = kit.join_twice(rebalance_ms=2 * DELAY_MS)
        kit.advance(DELAY_MS)
    assert kit.now_ms == START_MS + 2 * DELAY_MS
    assert first.answer.generation_id == last.answer.generation_id == 1


def test_the_delay_is_the_settings() -> None:
    kit = ClassicKit(group_initial_rebalance_delay_ms=0)
    _, ticket = kit.join_twice()
    kit.advance(0)
    assert ticket.settled


def test_members_that_do_not_join_in_time_are_out() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    ticket = kit.join(follower, protocols=RANGE)
    assert ticket.settled
    _, newcomer = kit.join_twice()
    again = kit.join(follower)
    for _ in range(REBALANCE_MS // 5_000):
        assert not again.settled
        assert kit.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        kit.advance(5_000)
    assert again.answer.leader == follower, "another leads"
    assert len(again.answer.members) == 2
    assert newcomer.answer.generation_id == 2
    assert kit.beat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    kit = ClassicKit()
    leader, _ = kit.form(RANGE, RANGE, rebalance_ms=20_000, session_ms=100_000)
    _, ticket = kit.join_twice(rebalance_ms=30_000, session_ms=100_000)
    kit.join(leader, rebalance_ms=10_000)
    kit.advance(29_999)
    assert not ticket.settled
    kit.advance(1)
    assert ticket.settled


def test_a_session_that_ends_is_a_rebalance_for_the_others() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.advance(SESSION_MS - 1)
    assert kit.beat(leader, 1) is ErrorCode.NONE
    kit.advance(1)
    assert kit.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.beat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    ticket = kit.join(leader)
    assert ticket.answer.generation_id == 2


def test_one_that_goes_does_not_end_the_wait_for_others() -> None:
    kit = ClassicKit()
    leader, silent, busy = kit.form(RANGE, RANGE, RANGE)
    ticket = kit.join(leader)
    given = kit.join(session_ms=2 * SESSION_MS).answer.member_id
    kit.advance(SESSION_MS - 1)
    kit.beat(busy, 1)
    kit.advance(1)
    assert list(kit.group.members) == [leader, busy], f"{silent} was not heard of"
    assert not ticket.settled
    kit.advance(SESSION_MS - 1)
    assert not ticket.settled, "one is to come that was given an id"
    kit.advance(1)
    assert given not in kit.group.pending
    assert list(kit.group.members) == [leader]
    assert ticket.settled


def test_a_rebalance_forgets_who_was_to_sync() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.join(leader)
    kit.join(follower)
    assert set(kit.group.pending_sync) == {leader, follower}
    kit.join(follower, protocols=BOTH)
    assert_sound(kit.group, kit)
    assert not kit.group.pending_sync


def test_those_that_wait_need_no_heartbeats() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    ticket = kit.join(leader)
    for _ in range(4):
        kit.advance(SESSION_MS - 1)
        kit.beat(follower, 1)
    assert not ticket.settled
    kit.join(follower)
    kit.sync(follower, 2)
    kit.advance(SESSION_MS - 1)
    kit.beat(leader, 2)
    kit.advance(SESSION_MS - 1)
    kit.sync(leader, 2, {})
    kit.advance(SESSION_MS - 1)
    assert kit.beat(follower, 2) is ErrorCode.NONE, "its session began with the answer"


def test_the_last_member_that_goes_leaves_an_empty_group() -> None:
    kit = ClassicKit()
    kit.form()
    kit.advance(SESSION_MS)
    group = kit.group
    assert (group.current, group.generation, group.protocol) == (GroupState.EMPTY, 2, None)
    stored = kit.replayed().state.groups["g"]
    assert (stored.state(0), stored.protocol_type) == ("Empty", "consumer")
    assert stored.expires_since() == group.since_ms == START_MS + DELAY_MS + SESSION_MS


def test_a_first_rebalance_that_all_leave() -> None:
    kit = ClassicKit()
    member_id, ticket = kit.join_twice()
    kit.leave(member_id)
    assert code_of(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    kit.advance(DELAY_MS)
    assert (kit.group.current, kit.group.generation) == (GroupState.EMPTY, 1)


def test_an_empty_group_begins_with_a_delay_again() -> None:
    kit = ClassicKit()
    kit.form()
    kit.advance(SESSION_MS)
    _, ticket = kit.join_twice()
    kit.advance(DELAY_MS - 1)
    assert not ticket.settled
    kit.advance(1)
    assert ticket.answer.generation_id == 3


def test_members_that_do_not_sync_in_time_are_out() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.join(leader)
    kit.join(follower)
    waiting = kit.sync(follower, 2)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        kit.advance(5_000)
        assert kit.beat(leader, 2) is ErrorCode.NONE
    kit.advance(5_000)
    assert code_of(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.beat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.beat(follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_does_not_sync_in_a_stable_group_is_out() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.join(leader)
    kit.join(follower)
    kit.sync(leader, 2, {})
    for _ in range(REBALANCE_MS // 5_000):
        kit.advance(5_000)
        kit.beat(leader, 2)
        kit.beat(follower, 2)
    assert list(kit.group.members) == [leader]


def test_static_members_stay_until_their_sessions_end() -> None:
    kit = ClassicKit()
    first = kit.join(instance_id="i", rebalance_ms=1_000, session_ms=SESSION_MS)
    kit.advance(DELAY_MS)
    own = first.answer.member_id
    kit.sync(own, 1, {own: b"part"}, instance_id="i")
    leave = kit.join(own, instance_id="i", protocols=RANGE)
    assert leave.answer.generation_id == 2
    kit.sync(own, 2, {own: b"part"}, instance_id="i")
    member_id, waiting = kit.join_twice(rebalance_ms=1_000)
    kit.leave(member_id)
    assert waiting.settled
    kit.advance(5_000)  # nobody joins, time after time
    assert kit.group.state(0) == "PreparingRebalance"
    assert list(kit.group.members) == [own]
    kit.advance(SESSION_MS)
    assert kit.group.state(0) == "Empty"


def test_a_rebalance_without_an_absent_static_member_keeps_it() -> None:
    kit = ClassicKit()
    static = kit.join(instance_id="i", session_ms=10 * REBALANCE_MS)
    member_id, _ = kit.join_twice()
    kit.advance(2 * DELAY_MS)
    own = static.answer.member_id
    kit.sync_all([own, member_id], {})
    ticket = kit.join(member_id, protocols=(*RANGE, RANGE[0]._replace(name="more")))
    kit.advance(REBALANCE_MS)
    assert ticket.answer.leader == member_id
    assert {one.member_id for one in ticket.answer.members} == {own, member_id}


def test_the_leader_of_a_big_group_is_told_in_steps() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_A_STEP)
    told, pauses, _ = run_and_look(joined_members(group))
    assert [one.member_id for one in told] == list(group.members)
    assert pauses == 2


def test_an_empty_group_that_can_not_be_stored() -> None:
    kit = ClassicKit()
    (member_id,) = kit.form()
    kit.port.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert code_of(kit.leave(member_id)) is ErrorCode.NOT_COORDINATOR
    assert kit.group.current is GroupState.EMPTY


def abandoned(kit: ClassicKit, *instance_ids: str, rebalance_ms: int) -> list[str]:
    """A stable group of static members, which come again without their ids, and of which the last
    leaves, so that all have to join; nobody does. The ids of those that are left."""
    for instance_id in instance_ids:
        kit.join(instance_id=instance_id)
    kit.advance(len(instance_ids) * DELAY_MS)
    group = kit.group
    kit.sync_all(list(group.members), dict.fromkeys(group.members, b"part"))
    for instance_id in instance_ids:
        answer = kit.join(
            instance_id=instance_id, rebalance_ms=rebalance_ms, session_ms=100 * SESSION_MS
        ).answer
        assert answer.error_code == ErrorCode.NONE and answer.generation_id == 1
    *ids, last = group.members
    kit.leave(last)
    for _ in range(10):
        at_ms = kit.journal.wake_at()
        if at_ms is None or at_ms > kit.now_ms + rebalance_ms:
            break
        run_at_once(kit.journal.tick_in_steps(at_ms))
        kit.commit()
    else:
        raise AssertionError("it spins")
    kit.now_ms += rebalance_ms
    assert group.current is GroupState.PREPARING_REBALANCE and list(group.members) == ids
    return ids


@pytest.mark.parametrize("rebalance_ms", [0, 5_000])
def test_where_nobody_joins_nothing_is_done_until_somebody_does(
    rebalance_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka tries again and again, as fast as it can if the timeout is 0."""
    kit = ClassicKit()
    with caplog.at_level(logging.INFO):
        (member,) = abandoned(kit, "a", "b", rebalance_ms=rebalance_ms)
        kit.advance(60_000)
    assert sum("no members rejoined" in line for line in caplog.messages) == 1
    assert kit.join(member, instance_id="a").answer.generation_id == 2
    assert_sound(kit.group, kit)


@pytest.mark.parametrize("rebalance_ms", [0, 5_000])
def test_who_joins_then_waits_for_the_others_as_long_as_ever(rebalance_ms: int) -> None:
    kit = ClassicKit()
    first, second = abandoned(kit, "a", "b", "c", rebalance_ms=rebalance_ms)
    ticket = kit.join(second, instance_id="b", rebalance_ms=rebalance_ms)
    assert not ticket.settled
    assert_sound(kit.group, kit)
    if rebalance_ms:
        kit.advance(rebalance_ms - 1)
        assert not ticket.settled
        kit.advance(1)
    else:
        run_at_once(kit.journal.tick_in_steps(kit.now_ms))
        kit.commit()
    assert ticket.answer.leader == second, "it leads"
    assert [one.member_id for one in ticket.answer.members] == [first, second]
