"""The assignor `uniform` where members subscribe to different topics.

Members keep the partitions of their current target that they still subscribe to. Unassigned
partitions go to the subscriber with the fewest. Then partitions move from members with many to
members with few, topic by topic, until no move improves the balance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final
from uuid import UUID

from kavka.groupcoord.consumer.assignors.task import Task
from kavka.wire.steps import PauseCounter, Steps

ROUNDS_MAX: Final = 16
"""Limit of balancing rounds over all topics."""


def assign(task: Task) -> Steps[dict[str, dict[UUID, list[int]]]]:
    alike, pauses = _alike(task), PauseCounter()
    balance = _Balance(task, (yield from _subscribers(alike, pauses)), pauses)
    yield from balance.keep(alike)
    yield from balance.hand_out()
    yield from balance.even_out()
    return (yield from balance.result())


class _Balance:
    """The assignment in progress; members are referred to by number."""

    def __init__(
        self, task: Task, subscribers: Mapping[UUID, list[int]], pauses: PauseCounter
    ) -> None:
        self._members = task.members
        self._subscribers = subscribers
        self._pauses = pauses
        self._sizes = [0] * len(task.members)
        self._moved = 0
        """Partitions that were moved between members."""
        self._even: dict[int, int] = {}
        """{identity of a subscriber list: `_moved` when it was last found to be balanced}."""
        self._owners: dict[UUID, list[int | None]] = {
            topic: [None] * task.partitions[topic] for topic in self._subscribers
        }
        self._order = sorted(self._subscribers, key=self._place)

    def keep(self, alike: Sequence[tuple[Sequence[UUID], list[int]]]) -> Steps[None]:
        """Have members keep their current targets, as far as they are still subscribed."""
        subscribed = {id(topics): frozenset(topics) for topics, _ in alike}
        for number, member in enumerate(self._members):
            topics = subscribed[id(member.topics)]
            for topic, partitions in member.target.items():
                if topic in topics:
                    owners = self._owners[topic]
                    count = len(owners)
                    for partition in partitions:
                        # a damaged log may have partitions that don't exist, or one twice
                        if 0 <= partition < count and owners[partition] is None:
                            owners[partition] = number
                            self._sizes[number] += 1
                if self._pauses.is_due(1 + len(partitions)):
                    yield None

    def _place(self, topic: UUID) -> tuple[float, int, int]:
        """Topics with the most partitions per subscriber come first."""
        subscribers = len(self._subscribers[topic])
        return -len(self._owners[topic]) / subscribers, subscribers, topic.int

    def hand_out(self) -> Steps[None]:
        """Assign unassigned partitions to the members with the fewest."""
        for topic in self._order:
            owners = self._owners[topic]
            free = [partition for partition, owner in enumerate(owners) if owner is None]
            if self._pauses.is_due(1 + len(owners)):
                yield None
            if not free:
                continue
            subscribers = self._subscribers[topic]
            if self._pauses.is_due(len(subscribers)):
                yield None
            least = [(self._sizes[number], number) for number in subscribers]
            heapify(least)
            for partition in free:
                size, number = least[0]
                owners[partition] = number
                self._sizes[number] = size + 1
                heapreplace(least, (size + 1, number))

    def even_out(self) -> Steps[None]:
        """Balance topic by topic until a full round changes nothing."""
        shared = [topic for topic in self._order if len(self._subscribers[topic]) > 1]
        unchanged = 0
        for _ in range(ROUNDS_MAX):
            for topic in shared:
                if self._pauses.is_due(len(self._subscribers[topic]) + len(self._owners[topic])):
                    yield None
                unchanged = 0 if self._even_out_topic(topic) else unchanged + 1
                if unchanged >= len(shared):
                    return

    def _even_out_topic(self, topic: UUID) -> bool:
        """Whether a partition of the topic has moved."""
        sizes, subscribers, owners = self._sizes, self._subscribers[topic], self._owners[topic]
        if self._are_even(subscribers):
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            if owner is not None:
                owned.setdefault(owner, []).append(partition)
        least = [(sizes[number], number) for number in subscribers]
        most = [(-sizes[number], -number) for number in owned]
        heapify(least)
        heapify(most)
        moved = False
        while most:
            giver, taker = -most[0][1], least[0][1]
            if -most[0][0] != sizes[giver] or not owned[giver]:
                _drop_or_correct(most, sizes[giver], giver, bool(owned[giver]))
            elif least[0][0] != sizes[taker]:
                heapreplace(least, (sizes[taker], taker))
            elif sizes[giver] - sizes[taker] <= 1:
                break
            else:
                partition = owned[giver].pop()
                owners[partition] = taker
                sizes[giver] -= 1
                sizes[taker] += 1
                self._moved += 1
                moved = True
        return moved

    def _are_even(self, subscribers: list[int]) -> bool:
        """Whether no move among them helps; cached, as many topics share a subscriber list."""
        if self._even.get(id(subscribers)) == self._moved:
            return True
        sizes = [self._sizes[number] for number in subscribers]
        if max(sizes) - min(sizes) > 1:
            return False
        self._even[id(subscribers)] = self._moved
        return True

    def result(self) -> Steps[dict[str, dict[UUID, list[int]]]]:
        found: dict[str, dict[UUID, list[int]]] = {member.member_id: {} for member in self._members}
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    assignment = found[self._members[owner].member_id]
                    assignment.setdefault(topic, []).append(partition)
            if self._pauses.is_due(1 + len(owners)):
                yield None
        return found


def _alike(task: Task) -> list[tuple[Sequence[UUID], list[int]]]:
    """[(topics, numbers of the members that share this list)]."""
    found: dict[int, tuple[Sequence[UUID], list[int]]] = {}
    for number, member in enumerate(task.members):
        found.setdefault(id(member.topics), (member.topics, []))[1].append(number)
    return list(found.values())


def _subscribers(
    alike: list[tuple[Sequence[UUID], list[int]]], pauses: PauseCounter
) -> Steps[dict[UUID, list[int]]]:
    """{topic: its subscribers}, one list for all topics that have the same ones."""
    of_topic: dict[UUID, list[int]] = {}
    for number, (topics, _) in enumerate(alike):
        for topic in topics:
            of_topic.setdefault(topic, []).append(number)
        if pauses.is_due(1 + len(topics)):
            yield None
    lists: dict[tuple[int, ...], list[int]] = {}
    found = {}
    for topic, numbers in of_topic.items():
        which = tuple(numbers)
        if which not in lists:
            lists[which] = [subscriber for number in which for subscriber in alike[number][1]]
        found[topic] = lists[which]
        if pauses.is_due(1 + len(which)):
            yield None
    return found


def _drop_or_correct(most: list[tuple[int, int]], size: int, number: int, gives: bool) -> None:
    """Correct the stale size of the first of `most`, or drop it if it has no partition of the topic
    left to give."""
    if gives:
        heapreplace(most, (-size, -number))
    else:
        last = most.pop()
        if most:
            heapreplace(most, last)
