"""The metadata cache: the cluster as this broker describes it to clients, one immutable image.

Only the controller's UpdateMetadata changes it, by replacing the image. A reader that takes
`cache.image` once sees one consistent state.

The controller describes a big topic in several requests. A producer that knew a part of its
partitions would choose other ones for its keys, for as long as it keeps metadata. So the image gets
the new partitions of a topic with the last of these requests.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Iterable, Mapping
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
        """The partition with this index, or None. There may be gaps: controllers of Apache Kafka
        leave out a partition that has never had a leader."""
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
    """Also of topics that `topics` does not have yet: brokers replicate them by then."""


class MetadataCache:
    """Holds the newest image."""

    def __init__(self, cluster_id: str) -> None:
        self.image = MetadataImage(cluster_id)
        self._partial: dict[str, TopicImage] = {}
        """What is known of topics of which the image has a part, or nothing."""

    def apply(self, update: UpdateMetadata) -> list[TopicPartition]:
        """Apply an update. Returns the partitions that are being deleted."""
        topics = dict(self.image.topics)
        names_by_id = dict(self.image.names_by_id)
        deleted: list[TopicPartition] = []
        for state in update.topic_states:
            name = state.topic_name
            shown = topics.get(name)
            before = self._partial.pop(name, shown)
            if before is not None:
                names_by_id.pop(before.topic_id, None)
            gone = [
                TopicPartition(name, partition.partition_index)
                for partition in state.partition_states
                if partition.leader == LEADER_DURING_DELETE
            ]
            deleted += gone
            known = _topic(before, state)
            if known.partitions and known.topic_id != NO_TOPIC_ID:
                names_by_id[known.topic_id] = name
            topic: TopicImage | None = known
            if gone or not known.partitions:
                topic = None
            elif update.is_part:
                topic = _with_partitions_of(shown, known)
            if topic is None:
                topics.pop(name, None)
            else:
                topics[name] = topic
            if known.partitions and topic is not known:
                self._partial[name] = known
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
    has_gaps = bool(known) and known[-1].partition != len(known) - 1
    if not has_gaps and all(
        partition.partition_index == index and partition.leader != LEADER_DURING_DELETE
        for index, partition in enumerate(state.partition_states, start=len(known))
    ):  # the next part of a big topic
        known += tuple(map(_partition, state.partition_states))
        return TopicImage(state.topic_name, state.topic_id, known)
    partitions = {image.partition: image for image in known}
    for partition in state.partition_states:
        if partition.leader == LEADER_DURING_DELETE:
            partitions.pop(partition.partition_index, None)
        else:
            partitions[partition.partition_index] = _partition(partition)
    in_order = tuple(partitions[index] for index in sorted(partitions))
    return TopicImage(state.topic_name, state.topic_id, in_order)


def _with_partitions_of(shown: TopicImage | None, known: TopicImage) -> TopicImage | None:
    """`known`, with no other partitions than those that the image has; None if it has none."""
    if shown is None or shown.topic_id != known.topic_id:
        return None
    numbers = {partition.partition for partition in shown.partitions}
    partitions = (image for image in known.partitions if image.partition in numbers)
    return replace(known, partitions=tuple(partitions))


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
