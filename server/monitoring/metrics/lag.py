"""Consumer group lag, as `kafka-consumer-groups --describe` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import TopicImage
from kavka.server.monitoring.metrics.samples import Sample
from kavka.wire.steps import Steps

if TYPE_CHECKING:
    from kavka.groupcoord.offset_store import TopicOffsets

LAG_SERIES_MAX: Final = 10_000
"""Committed offsets in one page, at 2 us each to read and 7 us to write; those left out are
counted."""

OFFSETS_PER_STEP: Final = 500


@dataclass(slots=True)
class Lags:
    """The lag of groups that this broker coordinates, in partitions that it leads."""

    samples: list[Sample] = field(default_factory=list)
    """(group, topic, partition), and the lag in records."""

    examined: int = 0
    left_out: int = 0
    """Committed offsets beyond LAG_SERIES_MAX."""


def lags(broker: Broker) -> Steps[Lags]:
    """Compute all lags, in slices; not a consistent snapshot."""
    found = Lags()
    for runner in broker.groups.runners:
        if not runner.is_active:
            continue
        store = runner.machine.offsets.store
        before, count = found.examined, store.count
        for group_id in list(islice(store.groups(), LAG_SERIES_MAX - before)):
            yield from _of_group(broker, list(store.topics(group_id).values()), found)
        if found.examined >= LAG_SERIES_MAX:
            found.left_out += max(0, count - (found.examined - before))
    return found


def _of_group(broker: Broker, topics: list[TopicOffsets], found: Lags) -> Steps[None]:
    for of in topics:
        topic = broker.metadata.image.topics.get(of.topic)
        values = list(islice(of.values.items(), LAG_SERIES_MAX - found.examined))
        for begin in range(0, len(values), OFFSETS_PER_STEP):
            some = dict(values[begin : begin + OFFSETS_PER_STEP])
            if topic is not None:
                _add_lags(broker, topic, of, some, found)
            before = found.examined // OFFSETS_PER_STEP
            found.examined += len(some)
            if found.examined // OFFSETS_PER_STEP > before:
                yield None


def _add_lags(
    broker: Broker,
    topic: TopicImage,
    of: TopicOffsets,
    values: Mapping[int, bytes],
    found: Lags,
) -> None:
    # imported when there are groups: see `kavka.server.runtime.lazy_imports`
    from kavka.groupcoord.offset_records import offset_in_topic

    for partition, value in values.items():
        replica = broker.replicas.find(of.topic, partition)
        if replica is None or replica.offline or not replica.partition.is_leader:
            continue
        offset = offset_in_topic(value, topic.topic_id)
        if offset is not None:
            behind = replica.partition.high_watermark - offset
            found.samples.append(((of.group_id, of.topic, str(partition)), behind))
