"""Tasks for assignors, and a check of their results."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from hypothesis import strategies as st

from kavka.groupcoord.consumer.assignors.task import Candidate, Task

TOPICS = [UUID(int=number) for number in range(1, 5)]

counts = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in TOPICS})
topics_of_one = st.lists(st.sampled_from(TOPICS), unique=True)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Members with equal or different subscriptions; their targets may be of earlier ones, when
    topics had other numbers of partitions."""
    partitions = draw(counts)
    alike = draw(st.booleans())
    same = draw(topics_of_one)
    size = draw(st.integers(1, 6))
    free = {topic: list(range(count)) for topic, count in draw(counts).items()}
    members = []
    for number in range(size):
        target: dict[UUID, tuple[int, ...]] = {}
        for topic in draw(topics_of_one):
            take = draw(st.integers(0, len(free[topic])))
            own, free[topic] = free[topic][:take], free[topic][take:]
            own = [partition for partition in own if partition < partitions[topic]]
            if own:
                target[topic] = tuple(own)
        instance = draw(st.sampled_from([None, f"i{9 - number}"]))
        topics = same if alike else draw(topics_of_one)
        members.append(Candidate(f"m{number}", instance, topics, target))
    return Task(members, partitions, alike)


def check(task: Task, found: Mapping[str, Mapping[UUID, list[int]]]) -> None:
    subscribed = {
        (topic, partition)
        for member in task.members
        for topic in member.topics
        for partition in range(task.partitions[topic])
    }
    reads = {member.member_id: set(member.topics) for member in task.members}
    given = [
        (topic, partition)
        for member_id, own in found.items()
        for topic, partitions in own.items()
        for partition in partitions
        if topic in reads[member_id]
    ]
    assert len(given) == sum(len(indexes) for own in found.values() for indexes in own.values())
    assert sorted(given) == sorted(subscribed)
    for own in found.values():
        assert all(partitions == sorted(partitions) for partitions in own.values())
        assert all(own.values()), "a topic without partitions"
