"""The assignor `uniform`: it balances partition counts, and is sticky: members keep partitions of
their current target as far as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kavka.groupcoord.consumer.assignors import mixed
from kavka.groupcoord.consumer.assignors.task import Task
from kavka.wire.steps import PauseCounter, Steps


def assign(task: Task) -> Steps[dict[str, dict[UUID, list[int]]]]:
    if not task.members:
        return {}
    work = _assign_alike(task, PauseCounter()) if task.is_homogeneous else mixed.assign(task)
    return (yield from work)


def _assign_alike(task: Task, pauses: PauseCounter) -> Steps[dict[str, dict[UUID, list[int]]]]:
    """All members subscribe to the same topics."""
    topics = task.members[0].topics
    targets, free = yield from _sound_targets(task, pauses)
    all_partitions = 0
    for topic in topics:
        all_partitions += task.partitions[topic]
        if pauses.is_due(1):
            yield None
    quota, extra = divmod(all_partitions, len(task.members))
    found: dict[str, dict[UUID, list[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, (member, target) in enumerate(zip(task.members, targets, strict=True)):
        allowed = quota + (extra > 0)
        kept, given_up = yield from _keep(target, allowed, pauses)
        found[member.member_id] = kept
        free += given_up
        missing = allowed - sum(map(len, kept.values()))
        takes_extra = extra > 0
        if missing and takes_extra and len(task.members) - number > extra:
            # a later member may already have one more, and can then keep it
            missing -= 1
            takes_extra = False
        if missing:
            unfilled.append((member.member_id, missing))
        extra -= takes_extra
        if pauses.is_due(1 + allowed):
            yield None
    yield from _hand_out(free, unfilled, found, pauses)
    return found


def _sound_targets(
    task: Task, pauses: PauseCounter
) -> Steps[tuple[list[dict[UUID, list[int]]], list[tuple[UUID, int]]]]:
    """(valid current target of each member, unassigned partitions). A damaged or foreign log may
    contain partitions that don't exist, or one twice: then the first member keeps it."""
    topics = task.members[0].topics
    is_free: dict[UUID, bytearray] = {}
    for topic in topics:
        is_free[topic] = bytearray(b"\1") * task.partitions[topic]
        if pauses.is_due(1):
            yield None
    targets: list[dict[UUID, list[int]]] = []
    for member in task.members:
        targets.append(sound := {})
        for topic, partitions in member.target.items():
            of_topic = is_free.get(topic)
            if of_topic is None:
                continue
            count, own = len(of_topic), []
            for partition in partitions:
                if 0 <= partition < count and of_topic[partition]:
                    of_topic[partition] = 0
                    own.append(partition)
            if own:
                sound[topic] = own
            if pauses.is_due(1 + len(partitions)):
                yield None
        if pauses.is_due(1):
            yield None
    free: list[tuple[UUID, int]] = []
    for topic, of_topic in is_free.items():
        free += [(topic, partition) for partition, flag in enumerate(of_topic) if flag]
        if pauses.is_due(1 + len(of_topic)):
            yield None
    return targets, free


def _keep(
    target: Mapping[UUID, list[int]], allowed: int, pauses: PauseCounter
) -> Steps[tuple[dict[UUID, list[int]], list[tuple[UUID, int]]]]:
    """(partitions that the member keeps, partitions that it gives up)."""
    kept: dict[UUID, list[int]] = {}
    given_up: list[tuple[UUID, int]] = []
    for topic, partitions in target.items():
        if stays := partitions[:allowed]:
            kept[topic] = stays
        given_up += [(topic, partition) for partition in partitions[allowed:]]
        allowed -= len(stays)
        if pauses.is_due(1 + len(partitions)):
            yield None
    return kept, given_up


def _hand_out(
    free: list[tuple[UUID, int]],
    unfilled: list[tuple[str, int]],
    found: dict[str, dict[UUID, list[int]]],
    pauses: PauseCounter,
) -> Steps[None]:
    rest = iter(free)
    for member_id, missing in unfilled:
        assignment = found[member_id]
        changed: dict[UUID, None] = {}
        for _, (topic, partition) in zip(range(missing), rest, strict=False):
            assignment.setdefault(topic, []).append(partition)
            changed[topic] = None
            if pauses.is_due(1):
                yield None
        for topic in changed:
            assignment[topic].sort()
            if pauses.is_due(1):
                yield None
