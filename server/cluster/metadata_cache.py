"""The metadata cache: the cluster as this broker describes it to clients, one immutable image.

Only the controller's UpdateMetadata changes it, by replacing the image. A reader that takes
`cache.image` once sees one consistent state.

The controller describes a big topic in parts, the highest partitions first. A producer that knew
some of them would choose other partitions for its keys, for as long as it keeps metadata. So a new
topic is in the image once partition 0 is known, and one that grows keeps its partitions until all
of the others are known.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from kavka.server.cluster.control_messages import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    NO_TOPIC_ID,
    TopicPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)

NO_CONTROLLER: Final = -1

GROUP_TOPIC: Final = "__consumer_offsets"
"""The topic with the state of groups and their offsets."""

TRANSACTION_TOPIC: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})
"""Written by coordinators only; clients may read them. Only Apache Kafka 4 has a coordinator for
the last one, but its clients know the name."""


_NUMBER: Final = attrgetter("partition")


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition. `leader` is `NO_LEADER` while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; its partitions in order."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionImage, ...]

    def partition(self, index: int) -> PartitionImage | None:
        """The partition with this index, or None; there may be gaps while a topic is created."""
        if 0 <= index < len(self.partitions) and self.partitions[index].partition == index:
            return self.partitions[index]
        at = bisect_left(self.partitions, index, key=_NUMBER)
        found = self.partitions[at : at + 1]
        return found[0] if found and found[0].partition == index else None


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One live broker and where its listeners are."""

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]]
    """Listener name -> host and port."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at one moment."""

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names_by_id: Mapping[uuid.UUID, str] = field(default_factory=dict)


class MetadataCache:
    """Holds the newest image."""

    def __init__(self, cluster_id: str) -> None:
        self.image = MetadataImage(cluster_id)
        self._partial: dict[str, TopicImage] = {}
        """What is known of topics that are not in the image, or with fewer partitions."""

    def apply(self, update: UpdateMetadata) -> list[TopicPartition]:
        """Apply an update. Returns the partitions that are being deleted."""
        topics = dict(self.image.topics)
        names_by_id = dict(self.image.names_by_id)
        deleted: list[TopicPartition] = []
        for state in update.topic_states:
            name = state.topic_name
            before = topics.get(name)
            if before is not None:
                names_by_id.pop(before.topic_id, None)
            gone = [
                TopicPartition(name, partition.partition_index)
                for partition in state.partition_states
                if partition.leader == LEADER_DURING_DELETE
            ]
            deleted += gone
            known = _topic(self._partial.pop(name, before), state)
            topic = None if gone else _presentable(before, known)
            if known.partitions and topic is not known:
                self._partial[name] = known
            if topic is None:
                topics.pop(name, None)
            else:
                topics[name] = topic
                if topic.topic_id != NO_TOPIC_ID:
                    names_by_id[topic.topic_id] = name
        self.image = replace(
            self.image,
            controller_id=update.controller_id,
            brokers=_brokers(update.live_brokers),
            topics=topics,
            names_by_id=names_by_id,
        )
        return deleted


def _topic(before: TopicImage | None, state: UpdateMetadataTopicState) -> TopicImage:
    """What is known of a topic, with the partitions in `state` added or replaced."""
    known: tuple[PartitionImage, ...] = ()
    if before is not None and before.topic_id == state.topic_id:
        known = before.partitions  # else it was deleted and created again
    if known and _is_part_below(state.partition_states, known[0].partition):
        known = (*map(_partition, state.partition_states), *known)
        return TopicImage(state.topic_name, state.topic_id, known)
    partitions = {image.partition: image for image in known}
    for partition in state.partition_states:
        if partition.leader == LEADER_DURING_DELETE:
            partitions.pop(partition.partition_index, None)
        else:
            partitions[partition.partition_index] = _partition(partition)
    in_order = tuple(partitions[index] for index in sorted(partitions))
    return TopicImage(state.topic_name, state.topic_id, in_order)


def _is_part_below(states: Sequence[UpdateMetadataPartitionState], index: int) -> bool:
    """Whether these are the partitions just below one, in order: the next part of a big topic."""
    return all(
        state.partition_index == expected and state.leader != LEADER_DURING_DELETE
        for expected, state in enumerate(states, start=index - len(states))
    )


def _presentable(before: TopicImage | None, known: TopicImage) -> TopicImage | None:
    """What of a topic may be in the image; `before` is there now. See this module's docstring."""
    partitions = known.partitions
    if before is None or before.topic_id != known.topic_id:
        return known if partitions and partitions[0].partition == 0 else None
    if partitions[-1].partition == len(partitions) - 1:
        return known
    return replace(known, partitions=partitions[: len(before.partitions)])


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    return PartitionImage(
        partition=state.partition_index,
        leader=max(state.leader, NO_LEADER),
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        isr=state.isr,
        offline_replicas=state.offline_replicas,
        partition_epoch=state.zk_version,
    )


def _brokers(brokers: Iterable[UpdateMetadataBroker]) -> dict[int, BrokerImage]:
    return {
        broker.id: BrokerImage(
            broker.id,
            broker.rack,
            {end.listener: (end.host, end.port) for end in broker.endpoints},
        )
        for broker in brokers
    }
