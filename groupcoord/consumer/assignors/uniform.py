"""The assignor `uniform`: all members get as many partitions as each other, or nearly, and keep
those that they were to have, as far as that goes.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kavka.groupcoord.consumer.assignors import mixed
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.wire.steps import Pace, Slices


def assign(task: Task) -> Slices[dict[str, dict[UUID, list[int]]]]:
    if not task.members:
        return {}
    work = _assign_alike(task, Pace()) if task.is_homogeneous else mixed.assign(task)
    return (yield from work)


def _assign_alike(task: Task, pace: Pace) -> Slices[dict[str, dict[UUID, list[int]]]]:
    """All members subscribe to the same topics."""
    topics = task.members[0].topics
    subscribed = frozenset(topics)
    free = yield from _without_member(task, pace)
    quota, extra = divmod(sum(task.partitions[topic] for topic in topics), len(task.members))
    found: dict[str, dict[UUID, list[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, member in enumerate(task.members):
        allowed = quota + (extra > 0)
        kept, given_up = _keep(member, subscribed, allowed)
        found[member.member_id] = kept
        free += given_up
        missing = allowed - sum(map(len, kept.values()))
        takes_extra = extra > 0
        if missing and takes_extra and len(task.members) - number > extra:
            # later members may have one more already, and need not give it up then
            missing -= 1
            takes_extra = False
        if missing:
            unfilled.append((member.member_id, missing))
        extra -= takes_extra
        if pace.is_over(1 + allowed):
            yield
    yield from _hand_out(free, unfilled, found, pace)
    return found


def _without_member(task: Task, pace: Pace) -> Slices[list[tuple[UUID, int]]]:
    taken: dict[UUID, set[int]] = {}
    for member in task.members:
        for topic, partitions in member.target.items():
            taken.setdefault(topic, set()).update(partitions)
        if pace.is_over(1 + len(member.target)):
            yield
    free: list[tuple[UUID, int]] = []
    for topic in task.members[0].topics:
        own, count = taken.get(topic, ()), task.partitions[topic]
        free += [(topic, partition) for partition in range(count) if partition not in own]
        if pace.is_over(1 + count):
            yield
    return free


def _keep(
    member: Candidate, subscribed: Collection[UUID], allowed: int
) -> tuple[dict[UUID, list[int]], list[tuple[UUID, int]]]:
    """(what the member keeps, what others may get)."""
    kept: dict[UUID, list[int]] = {}
    given_up: list[tuple[UUID, int]] = []
    for topic, partitions in member.target.items():
        if topic not in subscribed:
            continue
        if stays := list(partitions[:allowed]):
            kept[topic] = stays
        given_up += [(topic, partition) for partition in partitions[allowed:]]
        allowed -= len(stays)
    return kept, given_up


def _hand_out(
    free: list[tuple[UUID, int]],
    unfilled: list[tuple[str, int]],
    found: dict[str, dict[UUID, list[int]]],
    pace: Pace,
) -> Slices[None]:
    rest = iter(free)
    for member_id, missing in unfilled:
        assignment = found[member_id]
        changed: dict[UUID, None] = {}
        for _, (topic, partition) in zip(range(missing), rest, strict=False):
            assignment.setdefault(topic, []).append(partition)
            changed[topic] = None
        for topic in changed:
            assignment[topic].sort()
        if pace.is_over(1 + missing):
            yield
