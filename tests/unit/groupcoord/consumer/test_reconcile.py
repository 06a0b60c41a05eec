"""One step of a member towards its target; the cases are KIP-848's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from kavka.groupcoord.consumer.member import Member, MemberState
from kavka.groupcoord.consumer.reconcile import ReconcileGoal, reconcile_member
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.refusals import refusal

T, U = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def step(
    member: Member,
    epoch: int,
    target: Mapping[UUID, tuple[int, ...]],
    *,
    taken: Collection[tuple[UUID, int]] = (),
    reported: Mapping[UUID, Collection[int]] | None = None,
    subscribed: Collection[UUID] = (T, U),
    changed: bool = False,
) -> Member:
    own = {
        (one, p) for part in (member.assigned, member.revoking) for one in part for p in part[one]
    }

    def has_owner(topic: UUID, partition: int) -> bool:
        return (topic, partition) in taken or (topic, partition) in own

    return run_at_once(
        reconcile_member(
            member, ReconcileGoal(epoch, target, subscribed, has_owner, reported, changed)
        )
    )


def has(epoch: int, *partitions: int, state: MemberState = STABLE, **more: object) -> Member:
    """A member with these partitions of T, all since its epoch."""
    assigned = {T: dict.fromkeys(partitions, epoch)} if partitions else {}
    return replace(Member("m", epoch, epoch - 1, state, assigned=assigned), **more)  # type: ignore[arg-type]


def test_a_new_member_gets_what_is_free() -> None:
    after = step(has(0), 1, {T: (0, 1)})
    assert after == has(1, 0, 1)


def test_it_waits_for_what_others_have() -> None:
    waiting = step(has(0), 1, {T: (0, 1)}, taken=[(T, 1)])
    assert waiting == has(1, 0, state=UNRELEASED)
    assert step(waiting, 1, {T: (0, 1)}, taken=[(T, 1)]).state is UNRELEASED
    after = step(waiting, 1, {T: (0, 1)})
    assert (after.state, after.assigned) == (STABLE, {T: {0: 1, 1: 1}})


def test_it_gives_up_before_it_goes_on() -> None:
    told = step(has(1, 0, 1), 2, {T: (0, 2)}, reported={T: [0, 1]})
    assert (told.state, told.member_epoch) == (UNREVOKED, 1)
    assert (told.assigned, told.revoking) == ({T: {0: 1}}, {T: {1: 1}})
    for reported in (None, {T: [0, 1]}, {T: [1]}):
        assert step(told, 2, {T: (0, 2)}, reported=reported) is told
    after = step(told, 2, {T: (0, 2)}, reported={T: [0]})
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (STABLE, 2, 1)
    assert (after.assigned, after.revoking) == ({T: {0: 1, 2: 2}}, {})


def test_what_it_no_longer_has_need_not_be_given_up() -> None:
    after = step(has(1, 0, 1), 2, {T: (0,)}, reported={T: [0]})
    assert (after.state, after.member_epoch, after.assigned) == (STABLE, 2, {T: {0: 1}})


def test_a_target_that_changes_while_it_gives_up() -> None:
    told = step(has(1, 0, 1), 2, {T: (0,)}, reported={T: [0, 1]})
    after = step(told, 3, {T: (0, 1)}, reported={T: [0]})
    assert (after.state, after.member_epoch) == (STABLE, 3)
    assert after.assigned == {T: {0: 1, 1: 3}}, "what it gave up itself belongs to nobody else"


def test_nothing_happens_at_the_target() -> None:
    member = has(2, 0)
    assert step(member, 2, {T: (0, 1)}) is member


def test_what_it_does_not_read_any_more_is_taken_at_once() -> None:
    member = has(2, 0, assigned={T: {0: 2}, U: {0: 2}})
    told = step(member, 2, {T: (0,)}, subscribed=[T], reported={T: [0], U: [0]}, changed=True)
    assert (told.state, told.member_epoch) == (UNREVOKED, 2)
    assert (told.assigned, told.revoking) == ({T: {0: 2}}, {U: {0: 2}})
    gone = step(member, 2, {T: (0,)}, subscribed=[T], reported={T: [0]}, changed=True)
    assert (gone.state, gone.assigned, gone.revoking) == (STABLE, {T: {0: 2}}, {})
    assert step(member, 2, {}, changed=True) is member


def test_a_target_of_topics_that_it_does_not_read_counts_for_nothing() -> None:
    after = step(has(1, 0), 2, {T: (0,), U: (0,)}, subscribed=[T])
    assert after.assigned == {T: {0: 1}}


def test_more_is_to_be_given_up_when_the_subscription_changes_meanwhile() -> None:
    member = Member("m", 1, 0, UNREVOKED, assigned={T: {0: 1}, U: {1: 1}}, revoking={U: {0: 1}})
    told = step(member, 2, {T: (0,)}, subscribed=[T], reported={T: [0], U: [0, 1]}, changed=True)
    assert (told.state, told.assigned) == (UNREVOKED, {T: {0: 1}})
    assert told.revoking == {U: {0: 1, 1: 1}}


@pytest.mark.parametrize("reported", [None, {T: [0]}])
def test_an_unknown_state_needs_a_member_without_partitions(
    reported: Mapping[UUID, Collection[int]] | None,
) -> None:
    member = has(1, 0, state=MemberState.UNKNOWN)
    code = refusal(lambda: step(member, 3, {T: (0,)}, reported=reported))
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(member, 3, {T: (0,)}, reported={}).state is STABLE
