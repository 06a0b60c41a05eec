"""A classic group without requests; what they do is in tests/scenarios/classic_groups."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_records import NO_TIME, StoredGroup, StoredMember
from kavka.groupcoord.classic.members import ClassicGroupMember
from kavka.log.timers import Timers
from kavka.wire.steps import ITEMS_PER_STEP, run_at_once
from support.classic_groups import STICKY, ClassicKit, big_group
from support.steps import run_and_look


def new_group() -> ClassicGroup:
    return ClassicGroup("g", Timers(), NO_TIME)


def test_a_group_that_only_stores_offsets() -> None:
    group = ClassicKit().shard.classic.simple_group("g")
    assert (group.kind, group.state(0), group.protocol_type) == ("classic", "Empty", "")
    group.check_fetch("a member of another group", 3)
    assert run_at_once(group.choose_protocol()) is None


def test_the_vote_for_a_protocol_pauses_in_a_big_group() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_PER_STEP)
    assert run_and_look(group.choose_protocol()) == ("range", 2, [])


def test_members_do_not_vote_if_all_have_just_one_protocol() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_PER_STEP)
    group.add(ClassicGroupMember("g", "m", None, "c", "/h", 1, 1, STICKY), "consumer", None)
    assert run_and_look(group.choose_protocol()) == ("sticky", 0, [])


def test_state_transitions() -> None:
    group = new_group()
    with pytest.raises(AssertionError, match="was Empty, not to be Stable"):
        group.enter(GroupState.STABLE, 1)
    group.enter(GroupState.PREPARING_REBALANCE, 7)
    assert (group.previous, group.since_ms) == (GroupState.EMPTY, 7)


def test_a_stored_group_with_a_duplicate_member_and_an_unknown_leader() -> None:
    member = StoredMember("m", None, "c", "/h", 1, 1, b"", b"")
    stored = StoredGroup("", 3, None, "unknown", NO_TIME, [member, member])
    group, empty = new_group(), new_group()
    run_at_once(group.restore(stored))
    assert (list(group.members), group.leader) == (["m"], "m")
    run_at_once(empty.restore(stored._replace(members=[])))
    assert empty.leader is None
