"""Reconciles a member's partitions with its target assignment (KIP-848).

First it revokes partitions that are not in its target. When it has acknowledged that, it advances
to the target's epoch and gets the partitions without an owner, and the rest as others revoke
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kavka.groupcoord.consumer.member import (
    NOTHING,
    ConsumerGroupMember,
    MemberState,
    Owned,
    Target,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Steps

Reported: TypeAlias = Mapping[UUID, Collection[int]]
"""Partitions that a member owns, as it reports."""


class ReconcileGoal(NamedTuple):
    """The input of a member's reconciliation."""

    target_epoch: int
    target: Target
    subscribed: Container[UUID]
    """Topics that it subscribes to now; it must not own others."""
    has_owner: Callable[[UUID, int], bool]
    """Whether any member owns a partition, or has not revoked it yet."""
    reported: Reported | None
    """None: not reported."""
    subscription_changed: bool


def reconcile_member(
    member: ConsumerGroupMember, goal: ReconcileGoal
) -> Steps[ConsumerGroupMember]:
    """The member after its next step, or unchanged. ApiError FENCED_MEMBER_EPOCH."""
    state = member.state
    if state is MemberState.STABLE:
        if member.member_epoch != goal.target_epoch:
            return (yield from _step(member, goal, member.member_epoch))
        return _within_subscription(member, goal) if goal.subscription_changed else member
    if state is MemberState.UNREVOKED_PARTITIONS:
        if _has_any(goal.reported, member.revoking):
            changed = goal.subscription_changed
            return _within_subscription(member, goal) if changed else member
        return (yield from _step(member, goal, member.member_epoch))
    if state is MemberState.UNRELEASED_PARTITIONS:
        return (yield from _step(member, goal, member.member_epoch))
    if goal.reported is None or goal.reported:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return (yield from _step(member, goal, goal.target_epoch))


def _has_any(reported: Reported | None, partitions: Owned) -> bool:
    """Whether the member may still own one of the partitions."""
    if reported is None:
        return True
    return any(
        partition in partitions.get(topic, ())
        for topic, indexes in reported.items()
        for partition in indexes
    )


def _within_subscription(member: ConsumerGroupMember, goal: ReconcileGoal) -> ConsumerGroupMember:
    """Revoke only partitions of unsubscribed topics; the epoch does not change."""
    kept = {topic: own for topic, own in member.assigned.items() if topic in goal.subscribed}
    if len(kept) == len(member.assigned):
        return member
    revoking = dict(member.revoking)
    for topic, own in member.assigned.items():
        if topic not in kept:
            revoking[topic] = {**revoking.get(topic, {}), **own}
    if _has_any(goal.reported, revoking):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoking)
    return _moved(member, member.state, member.member_epoch, kept, member.revoking)


def _step(
    member: ConsumerGroupMember, goal: ReconcileGoal, epoch: int
) -> Steps[ConsumerGroupMember]:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    new: dict[UUID, list[int]] = {}
    waits, pauses = False, PauseCounter()
    for topic in {**goal.target, **member.assigned}:
        own = member.assigned.get(topic, {})
        target = goal.target.get(topic, ()) if topic in goal.subscribed else ()
        stays = {partition: own[partition] for partition in target if partition in own}
        if stays:
            kept[topic] = stays
        if len(stays) < len(own):
            revoking[topic] = {
                partition: at for partition, at in own.items() if partition not in stays
            }
        missing = [partition for partition in target if partition not in own]
        free = _free(member, goal, topic, missing)
        waits = waits or len(free) < len(missing)
        if free:
            new[topic] = free
        if pauses.is_due(10 + len(target) + len(own)):
            yield None
    if revoking and _has_any(goal.reported, revoking):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoking)
    for topic, partitions in new.items():
        all_of_it = {**kept.get(topic, {}), **dict.fromkeys(partitions, goal.target_epoch)}
        kept[topic] = dict(sorted(all_of_it.items()))
        if pauses.is_due(5 + len(all_of_it)):
            yield None
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, state, goal.target_epoch, kept, NOTHING)


def _free(
    member: ConsumerGroupMember, goal: ReconcileGoal, topic: UUID, missing: Sequence[int]
) -> list[int]:
    """Partitions that the member can get immediately: without an owner, or in revocation by this
    member itself."""
    revoking = member.revoking.get(topic, ())
    return [
        partition
        for partition in missing
        if partition in revoking or not goal.has_owner(topic, partition)
    ]


def _moved(
    member: ConsumerGroupMember, state: MemberState, epoch: int, assigned: Owned, revoking: Owned
) -> ConsumerGroupMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        revoking=revoking,
    )
