"""The assignor `range`: of each topic, members get consecutive partitions, in the same order.

Members are ordered by instance id, then by member id: topics with equal partition counts are
co-partitioned, i.e. the same member gets the same partitions of each.
"""

from __future__ import annotations

from uuid import UUID

from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.wire.steps import PauseCounter, Steps


def assign(task: Task) -> Steps[dict[str, dict[UUID, list[int]]]]:
    members = sorted(task.members, key=_place)
    pauses = PauseCounter()
    subscribers: dict[UUID, list[str]] = {}
    for member in members:
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
        if pauses.is_due(len(member.topics)):
            yield None
    found: dict[str, dict[UUID, list[int]]] = {member.member_id: {} for member in members}
    for topic, member_ids in subscribers.items():
        partitions = task.partitions[topic]
        quota, extra = divmod(partitions, len(member_ids))
        start = 0
        for number, member_id in enumerate(member_ids[:partitions]):  # the others get none
            end = start + quota + (number < extra)
            found[member_id][topic] = list(range(start, end))
            start = end
        if pauses.is_due(1 + partitions):
            yield None
    return found


def _place(member: Candidate) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member.member_id
    return False, member.instance_id
