"""Which brokers the controller's state machine sends which requests. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller import request_builders
from kavka.server.controller.events import Send
from kavka.server.controller.state import ClusterState

NONE_NEW: Final[Mapping[TopicPartition, Collection[int]]] = {}


class BrokerRequests:
    """Makes requests out of the state that a controller has of its cluster."""

    def __init__(self, cluster: ClusterState, listener: str) -> None:
        """`listener`: the name of the inter-broker listener."""
        self._cluster = cluster
        self._listener = listener

    def states(
        self,
        partitions: Sequence[TopicPartition],
        brokers: Sequence[int],
        *,
        described: Sequence[TopicPartition] | None = None,
        continued: str = "",
        new: Mapping[TopicPartition, Collection[int]] = NONE_NEW,
    ) -> Iterator[Send]:
        """LeaderAndIsr to those of `brokers` with a replica, then UpdateMetadata to all. That may
        have more partitions (`described`), whose states are going to be replaced, or that have none
        yet: a topic seems to have fewer partitions to a broker that has not heard of them.
        `continued`: see `metadata`; `new`: see `request_builders.leader_and_isr`."""
        for broker_id in brokers:
            yield from self.leader_and_isr(broker_id, partitions, new)
        described = partitions if described is None else described
        for broker_id in brokers if described else ():
            yield from self.metadata(broker_id, described, continued)

    def states_to_all(
        self,
        partitions: Sequence[TopicPartition],
        *,
        described: Sequence[TopicPartition] | None = None,
        new: Mapping[TopicPartition, Collection[int]] = NONE_NEW,
    ) -> Iterator[Send]:
        """The same to all brokers, which have heard of the partitions then."""
        for tp in partitions if described is None else described:
            self._cluster.topics[tp.topic].undescribed.pop(tp.partition, None)
        brokers = list(self._cluster.brokers)
        yield from self.states(partitions, brokers, described=described, new=new)

    def leader_and_isr(
        self,
        broker_id: int,
        partitions: Iterable[TopicPartition],
        new: Mapping[TopicPartition, Collection[int]] = NONE_NEW,
    ) -> Iterator[Send]:
        """LeaderAndIsr for those of the partitions of which the broker may have a replica."""
        replicas = [tp for tp in partitions if self._may_have(broker_id, tp)]
        if replicas:
            request = request_builders.leader_and_isr(
                self._cluster, broker_id, replicas, new=new, listener=self._listener
            )
            yield Send(broker_id, request)

    def metadata(
        self, broker_id: int, partitions: Sequence[TopicPartition], continued: str = ""
    ) -> Iterator[Send]:
        """UpdateMetadata; another one, marked as a part, for topics of which other partitions
        follow: the topic `continued`, and those that have partitions no broker has heard of."""
        topics = {tp.topic: self._cluster.topics[tp.topic] for tp in partitions}
        in_part = [
            name
            for name, topic in topics.items()
            if (topic.undescribed or name == continued) and not topic.deleting
        ]
        whole = [tp for tp in partitions if tp.topic not in in_part] if in_part else partitions
        parts = [tp for tp in partitions if tp.topic in in_part] if in_part else ()
        build = partial(request_builders.update_metadata, self._cluster, broker_id)
        if whole or not parts:
            yield Send(broker_id, build(whole))
        if parts:
            yield Send(broker_id, build(parts, is_part=True))

    def stop_replica(self, broker_id: int, partitions: Iterable[TopicPartition]) -> Iterator[Send]:
        """StopReplica for those of the partitions of which the broker has a replica."""
        replicas = [tp for tp in partitions if self._has_replica(broker_id, tp)]
        if replicas:
            request = request_builders.stop_replica(self._cluster, broker_id, replicas)
            yield Send(broker_id, request)

    def _may_have(self, broker_id: int, tp: TopicPartition) -> bool:
        topic, partition = self._cluster.topics.get(tp.topic), self._cluster.partition(tp)
        return (
            topic is not None
            and partition is not None
            and not topic.deleting
            and partition.state is not None
            and broker_id in partition.known_assignment.replicas
            and broker_id not in partition.offline
        )

    def _has_replica(self, broker_id: int, tp: TopicPartition) -> bool:
        partition = self._cluster.partition(tp)
        return partition is not None and broker_id in partition.holders
