"""Assigns the replicas of new partitions to brokers. Apache Kafka's algorithm; pure, but random.

First replicas go round robin from a random start, so leaders are even. The distance from the
first replica to the others grows with each round, so the partitions that one broker leads have
their followers on different ones. With racks (all brokers or none), the round goes from rack to
rack, and a rack gets a second replica only when every rack has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.seams import Random


class Existing(NamedTuple):
    """The existing partitions of a topic, from which the round robin continues."""

    partitions: int
    first_broker: int
    """The first replica of partition 0."""


def assign_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    random: Random,
    existing: Existing | None = None,
) -> dict[int, tuple[int, ...]]:
    """Replicas by partition, on the brokers that `racks` names.

    `replication_factor` is at least 1 and at most the number of brokers. Racks count only when
    every broker has one. `partitions` are added after the existing ones.
    """
    known = {broker_id: rack for broker_id, rack in sorted(racks.items()) if rack is not None}
    by_rack = len(known) == len(racks)
    brokers = _alternate(known) if by_rack else sorted(racks)
    if existing is None:
        begin = 0
        start, shift = random.randrange(len(brokers)), random.randrange(len(brokers))
    else:
        begin = existing.partitions
        start = shift = _broker_index(sorted(racks), existing.first_broker)
    assigned: dict[int, tuple[int, ...]] = {}
    for index in range(begin, begin + partitions):
        if index and index % len(brokers) == 0:
            shift += 1
        first = (index + start) % len(brokers)
        if by_rack:
            assigned[index] = _spread(brokers, known, first, shift, replication_factor)
        else:
            others = range(replication_factor - 1)
            assigned[index] = (
                brokers[first],
                *(brokers[_other(first, shift + number, len(brokers))] for number in others),
            )
    return assigned


def _broker_index(brokers: Sequence[int], first: int) -> int:
    """Index of a broker; if it is not registered, that of the next higher id, or 0."""
    return next((place for place, broker_id in enumerate(brokers) if broker_id >= first), 0)


def _alternate(racks: Mapping[int, str]) -> list[int]:
    """The brokers, ordered so that neighbours are on different racks where possible."""
    waiting: dict[str, list[int]] = {}
    for broker_id, rack in sorted(racks.items(), key=lambda item: (item[1], item[0])):
        waiting.setdefault(rack, []).append(broker_id)
    rounds = max(map(len, waiting.values()), default=0)
    return [
        brokers[number]
        for number in range(rounds)
        for brokers in waiting.values()
        if number < len(brokers)
    ]


def _spread(
    brokers: Sequence[int], racks: Mapping[int, str], first: int, shift: int, count: int
) -> tuple[int, ...]:
    """Replicas of one partition, on as many racks as can be."""
    racks_total = len(dict.fromkeys(racks.values()))
    replicas = [brokers[first]]
    racks_used = {racks[brokers[first]]: None}
    step = 0
    while len(replicas) < count:
        broker_id = brokers[_other(first, shift * racks_total + step, len(brokers))]
        step += 1
        new_rack = racks[broker_id] not in racks_used or len(racks_used) == racks_total
        if new_rack and broker_id not in replicas:
            replicas.append(broker_id)
            racks_used[racks[broker_id]] = None
    return tuple(replicas)


def _other(first: int, shift: int, brokers: int) -> int:
    """Index of a broker other than the first; each of `brokers - 1` shifts in a row gives one."""
    return (first + 1 + shift % (brokers - 1)) % brokers
