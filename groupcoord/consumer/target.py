"""The target assignment of a group: which member shall have which partitions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from kavka.groupcoord.consumer.assignors import ASSIGNORS
from kavka.groupcoord.consumer.assignors.task import Candidate, Task
from kavka.groupcoord.consumer.group import NO_ASSIGNMENT, ConsumerGroup
from kavka.groupcoord.consumer.member import Member, Target
from kavka.groupcoord.state import Topics


def compute(
    group: ConsumerGroup, topics: Topics, new: Member, assignor: str, *, is_homogeneous: bool
) -> dict[str, Target]:
    """{member id: target} with `new` in the place of the member with its id, or of the static
    member before it."""
    replaced = group.static_members.get(new.instance_id) if new.instance_id is not None else None
    members = [
        new if one.member_id == new.member_id else one
        for one in group.members.values()
        if one.member_id == new.member_id or one.member_id != replaced
    ]
    if new.member_id not in group.members:
        members.append(new)
    known = _Known(topics)
    candidates = [
        Candidate(
            one.member_id,
            one.instance_id,
            known.ids(group.subscribed_topics(one)),
            _target(group, one, is_new=one is new),
        )
        for one in members
    ]
    found = ASSIGNORS[assignor](Task(candidates, known.partitions, is_homogeneous))
    return {
        one.member_id: {
            topic: tuple(partitions)
            for topic, partitions in found.get(one.member_id, NO_ASSIGNMENT).items()
        }
        for one in members
    }


def _target(group: ConsumerGroup, member: Member, *, is_new: bool) -> Target:
    """What a member was to have; a new static one, what the member before it was to."""
    own = group.targets.get(member.member_id, NO_ASSIGNMENT)
    if not is_new or member.instance_id is None:
        return own
    before = group.static_members.get(member.instance_id, member.member_id)
    return own if before == member.member_id else group.targets.get(before, NO_ASSIGNMENT)


def subscribed_ids(group: ConsumerGroup, topics: Topics, member: Member) -> dict[UUID, None]:
    """The ids of the topics that a member reads and that exist."""
    return dict.fromkeys(_Known(topics).ids(group.subscribed_topics(member)))


class _Known:
    """Ids and sizes of topics, each looked up once."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._ids: dict[str, UUID | None] = {}
        self.partitions: dict[UUID, int] = {}

    def ids(self, names: Sequence[str]) -> list[UUID]:
        found = []
        for name in names:
            if name not in self._ids:
                self._ids[name] = self._look_up(name)
            topic_id = self._ids[name]
            if topic_id is not None:
                found.append(topic_id)
        return found

    def _look_up(self, name: str) -> UUID | None:
        topic_id, partitions = self._topics.topic_id(name), self._topics.partition_count(name)
        if topic_id is None or partitions is None:
            return None
        self.partitions[topic_id] = partitions
        return topic_id
