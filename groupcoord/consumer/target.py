"""Computes the target assignment of a group."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Sequence
from uuid import UUID

from kavka.groupcoord.consumer.assignors import ASSIGNORS
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.groupcoord.consumer.group import NO_ASSIGNMENT, ConsumerGroup
from kavka.groupcoord.consumer.member import ConsumerGroupMember, Target
from kavka.groupcoord.state import Topics
from kavka.wire.steps import PauseCounter, Steps, each


def compute(
    group: ConsumerGroup,
    topics: Topics,
    new: ConsumerGroupMember,
    assignor: str,
    *,
    is_homogeneous: bool,
) -> Steps[dict[str, Target]]:
    """{member id: target}, with `new` replacing the member with its id, or its static
    predecessor."""
    replaced = group.static_members.get(new.instance_id) if new.instance_id is not None else None
    members = [
        new if member.member_id == new.member_id else member
        for member in group.members.values()
        if member.member_id == new.member_id or member.member_id != replaced
    ]
    if new.member_id not in group.members:
        members.append(new)
    known, pauses = _Known(group, topics), PauseCounter()
    candidates = []
    for member in members:
        read = yield from known.read_by(member)
        target = _target(group, member, is_new=member is new)
        candidates.append(Candidate(member.member_id, member.instance_id, read, target))
        if pauses.is_due(5 + len(read) // 20):
            yield None
    assigned = yield from ASSIGNORS[assignor](Task(candidates, known.partitions, is_homogeneous))
    found: dict[str, Target] = {}
    for member in members:
        own = assigned.get(member.member_id, NO_ASSIGNMENT)
        found[member.member_id] = {topic: tuple(partitions) for topic, partitions in own.items()}
        if pauses.is_due(1 + len(own)):
            yield None
    return found


def _target(group: ConsumerGroup, member: ConsumerGroupMember, *, is_new: bool) -> Target:
    """A member's current target; a new static member has its predecessor's."""
    own = group.targets.get(member.member_id, NO_ASSIGNMENT)
    if not is_new or member.instance_id is None:
        return own
    before = group.static_members.get(member.instance_id, member.member_id)
    return own if before == member.member_id else group.targets.get(before, NO_ASSIGNMENT)


class Subscribed(Container[UUID]):
    """The ids of the existing topics that a member subscribes to; looked up lazily."""

    __slots__ = ("_names", "_of_regex", "_topics")

    def __init__(self, group: ConsumerGroup, topics: Topics, member: ConsumerGroupMember) -> None:
        resolved = group.resolved.get(member.regex) if member.regex is not None else None
        self._names = member.topic_names
        self._of_regex = resolved.topics if resolved is not None else ()
        self._topics = topics

    def __contains__(self, topic_id: object) -> bool:
        assert isinstance(topic_id, UUID)
        name = self._topics.topic_name(topic_id)
        return name is not None and (_has(self._names, name) or _has(self._of_regex, name))


def _has(names: Sequence[str], name: str) -> bool:
    """`names` are sorted."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


class _Known:
    """Cached ids and partition counts of topics; equal subscriptions share a list."""

    def __init__(self, group: ConsumerGroup, topics: Topics) -> None:
        self._group = group
        self._topics = topics
        self._ids: dict[str, UUID | None] = {}
        self._lists: dict[tuple[tuple[str, ...], str | None], list[UUID]] = {}
        self.partitions: dict[UUID, int] = {}

    def read_by(self, member: ConsumerGroupMember) -> Steps[list[UUID]]:
        """The ids of the existing topics that a member subscribes to."""
        subscription = (member.topic_names, member.regex)
        found = self._lists.get(subscription)
        if found is None:
            ids: list[UUID | None] = []
            names = self._group.subscribed_topics(member)
            yield from each(names, lambda name: ids.append(self._id(name)))
            found = self._lists[subscription] = [
                topic_id for topic_id in ids if topic_id is not None
            ]
        return found

    def _id(self, name: str) -> UUID | None:
        if name not in self._ids:
            self._ids[name] = self._look_up(name)
        return self._ids[name]

    def _look_up(self, name: str) -> UUID | None:
        topic_id, partitions = self._topics.topic_id(name), self._topics.partition_count(name)
        if topic_id is None or partitions is None:
            return None
        self.partitions[topic_id] = partitions
        return topic_id
