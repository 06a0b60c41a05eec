"""Rebalances of big groups; others are in tests/scenarios/classic_groups."""

from __future__ import annotations

from kavka.groupcoord.classic.rebalancing import joined_members
from kavka.wire.steps import ITEMS_PER_STEP
from support.classic_groups import ClassicKit, big_group
from support.steps import run_and_look


def test_the_leaders_response_is_made_with_pauses() -> None:
    group = big_group(ClassicKit(), 2 * ITEMS_PER_STEP)
    members, pauses, _ = run_and_look(joined_members(group))
    assert [member.member_id for member in members] == list(group.members)
    assert pauses == 2
