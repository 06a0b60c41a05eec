"""Members as values."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.groupcoord.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    in_order,
    partitions_of,
    with_epoch,
)
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, run_at_once
from support.steps import run_and_look

T = UUID(int=1)


def test_topic_names_are_sorted_without_duplicates() -> None:
    assert in_order(["b", "a", "b"]) == ("a", "b")


def test_assignments_with_and_without_epochs() -> None:
    assert with_epoch({T: (1, 0)}, 7) == {T: {1: 7, 0: 7}}
    assert run_at_once(partitions_of({T: {1: 7, 0: 3}})) == {T: [0, 1]}


def test_partitions_of_many_topics_are_collected_in_steps() -> None:
    owned = {UUID(int=number + 1): {0: 7} for number in range(QUICK_ITEMS_PER_STEP)}
    found, pauses, _ = run_and_look(partitions_of(owned))
    assert found == dict.fromkeys(owned, [0])
    assert pauses == 2, "one for each 334"


@pytest.mark.parametrize(
    ("number", "state"),
    [(0, MemberState.STABLE), (2, MemberState.UNRELEASED_PARTITIONS), (9, MemberState.UNKNOWN)],
)
def test_states_by_number(number: int, state: MemberState) -> None:
    assert MemberState.of(number) is state


def test_when_a_member_is_reconciled() -> None:
    assert ConsumerGroupMember("m", 3).is_reconciled_to(3)
    assert not ConsumerGroupMember("m", 3).is_reconciled_to(4)
    assert not ConsumerGroupMember(
        "m", 3, state=MemberState.UNRELEASED_PARTITIONS
    ).is_reconciled_to(3)


def test_an_empty_regex_is_none() -> None:
    assert ConsumerGroupMember("m").regex is None
    assert ConsumerGroupMember("m", topic_regex=None).regex is None
    assert ConsumerGroupMember("m", topic_regex="a").regex == "a"
