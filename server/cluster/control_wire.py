"""The controller's requests as messages of the wire, and back.

Read in every version: what an older one lacks has the value that a broker of Apache Kafka 3.9
assumes. Written in the newest version only, which the controller of 3.9 uses too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from kavka.server.cluster.control_messages import (
    NO_EPOCH,
    NO_TOPIC_ID,
    LeaderAndIsr,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    StopReplica,
    StopReplicaPartitionState,
    StopReplicaTopicState,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.config.listeners import PROTOCOLS
from kavka.wire.apis import update_metadata
from kavka.wire.apis.leader_and_isr import LeaderAndIsrRequest
from kavka.wire.apis.stop_replica import StopReplicaRequest
from kavka.wire.apis.update_metadata import Endpoint, LiveBroker, UpdateMetadataRequest
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PLAINTEXT: Final = "PLAINTEXT"

PARTITIONS_PER_STEP: Final = 500
"""Partitions of a request that are read between two pauses, at 3 us each."""


def security_protocol_number(name: str) -> int:
    """A security protocol's number on the wire. ValueError if there is no such protocol."""
    return PROTOCOLS.index(name)


def security_protocol_name(number: int) -> str:
    """The security protocol of this number. ApiError if there is none."""
    if not 0 <= number < len(PROTOCOLS):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"There is no security protocol {number}.")
    return PROTOCOLS[number]


# -- LeaderAndIsr ------------------------------------------------------------------------------


def leader_and_isr_request(leader_and_isr: LeaderAndIsr) -> LeaderAndIsrRequest:
    """The request in version 7."""
    return LeaderAndIsrRequest(
        leader_and_isr.controller_id,
        leader_and_isr.controller_epoch,
        leader_and_isr.broker_epoch,
        leader_and_isr.topic_states,
        leader_and_isr.live_leaders,
    )


def read_leader_and_isr(request: Any) -> Steps[LeaderAndIsr]:
    """A request that was received, in any version; in steps, as it may name all partitions of a
    broker."""
    topics: list[LeaderAndIsrTopicState] = []
    done = 0
    for name, topic_id, states in _topics(request):
        read: list[LeaderAndIsrPartitionState] = []
        for state in states:
            read.append(_leader_and_isr_state(state))
            done += 1
            if done % PARTITIONS_PER_STEP == 0:
                yield None
        topics.append(LeaderAndIsrTopicState(name, topic_id, tuple(read)))
    return LeaderAndIsr(
        request.controller_id,
        request.controller_epoch,
        request.broker_epoch,
        tuple(topics),
        tuple(
            LeaderAndIsrLiveLeader(leader.broker_id, leader.host_name, leader.port)
            for leader in request.live_leaders
        ),
    )


def _leader_and_isr_state(state: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        state.partition_index,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.partition_epoch,
        tuple(state.replicas),
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        state.is_new,
        state.leader_recovery_state,
    )


def _topics(request: Any) -> Iterator[tuple[str, UUID, Iterable[Any]]]:
    """Name, id and partitions of each topic. Versions differ in which of the request's two lists
    has them; the other one is empty."""
    for name, states in _by_topic(request.ungrouped_partition_states).items():
        yield name, NO_TOPIC_ID, states
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id or NO_TOPIC_ID, topic.partition_states


def _by_topic(partitions: Iterable[Any]) -> dict[str, list[Any]]:
    """Partitions that name their topics, by topic."""
    found: dict[str, list[Any]] = {}
    for partition in partitions:
        found.setdefault(partition.topic_name, []).append(partition)
    return found


# -- UpdateMetadata ----------------------------------------------------------------------------


def update_metadata_request(update: UpdateMetadata) -> UpdateMetadataRequest:
    """The request in version 8. A part is marked as an incremental update, which means nothing to
    brokers of Apache Kafka, as it does not come from a controller of KRaft."""
    return UpdateMetadataRequest(
        update.controller_id,
        update.controller_epoch,
        update.broker_epoch,
        update.topic_states,
        [_live_broker(broker) for broker in update.live_brokers],
        type=update_metadata.INCREMENTAL if update.is_part else 0,
    )


def _live_broker(broker: UpdateMetadataBroker) -> LiveBroker:
    endpoints = [
        Endpoint(
            endpoint.port,
            endpoint.host,
            endpoint.listener,
            security_protocol_number(endpoint.security_protocol),
        )
        for endpoint in broker.endpoints
    ]
    return LiveBroker(broker.id, endpoints, broker.rack)


def read_update_metadata(
    request: Any, version: int, *, partitions_max: int
) -> Iterator[UpdateMetadata]:
    """A request that was received, as one or more that say the same together, each for at most
    `partitions_max` partitions: it may name all partitions of a cluster. ApiError if it has an
    unknown security protocol."""
    head = request.controller_id, request.controller_epoch, request.broker_epoch
    brokers = tuple(
        UpdateMetadataBroker(broker.id, _endpoints(broker, version), broker.rack)
        for broker in request.live_brokers
    )
    is_part = version >= update_metadata.TYPE_SINCE and request.type == update_metadata.INCREMENTAL
    topics: list[UpdateMetadataTopicState] = []
    room = partitions_max
    for name, topic_id, states in _topics(request):
        left = list(states)
        if topics and len(left) > room:
            yield UpdateMetadata(*head, tuple(topics), brokers, is_part)
            topics, room = [], partitions_max
        while len(left) > partitions_max:
            first, left = left[:partitions_max], left[partitions_max:]
            read = tuple(map(_update_metadata_state, first))
            topic = UpdateMetadataTopicState(name, topic_id, read)
            yield UpdateMetadata(*head, (topic,), brokers, is_part=True)
        read = tuple(map(_update_metadata_state, left))
        topics.append(UpdateMetadataTopicState(name, topic_id, read))
        room -= len(left)
    yield UpdateMetadata(*head, tuple(topics), brokers, is_part)


def _update_metadata_state(state: Any) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        state.partition_index,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.zk_version,
        tuple(state.replicas),
        tuple(state.offline_replicas),
    )


def _endpoints(broker: Any, version: int) -> tuple[UpdateMetadataEndpoint, ...]:
    """Listeners that the version has no names of are named after their protocols."""
    if version < update_metadata.ENDPOINTS_SINCE:
        return (UpdateMetadataEndpoint(broker.v0_port, broker.v0_host, PLAINTEXT, PLAINTEXT),)
    has_names = version >= update_metadata.LISTENERS_SINCE
    found = []
    for endpoint in broker.endpoints:
        protocol = security_protocol_name(endpoint.security_protocol)
        listener = endpoint.listener if has_names else protocol
        found.append(UpdateMetadataEndpoint(endpoint.port, endpoint.host, listener, protocol))
    return tuple(found)


# -- StopReplica -------------------------------------------------------------------------------


def stop_replica_request(stop: StopReplica) -> StopReplicaRequest:
    """The request in version 4."""
    return StopReplicaRequest(
        stop.controller_id, stop.controller_epoch, stop.broker_epoch, stop.topic_states
    )


def read_stop_replica(request: Any) -> StopReplica:
    """A request that was received, in any version. Without leader epochs it deletes all of its
    partitions, or none."""
    deletes = request.delete_partitions
    topics = [
        StopReplicaTopicState(
            topic.topic_name,
            tuple(
                StopReplicaPartitionState(
                    state.partition_index, state.leader_epoch, state.delete_partition
                )
                for state in topic.partition_states
            ),
        )
        for topic in request.topic_states
    ]
    topics += [
        StopReplicaTopicState(
            name,
            tuple(StopReplicaPartitionState(index, NO_EPOCH, deletes) for index in indexes),
        )
        for name, indexes in _stopped_without_epoch(request)
    ]
    return StopReplica(
        request.controller_id, request.controller_epoch, request.broker_epoch, tuple(topics)
    )


def _stopped_without_epoch(request: Any) -> Iterator[tuple[str, Iterable[int]]]:
    for topic in request.topics:
        yield topic.name, topic.partition_indexes
    for name, partitions in _by_topic(request.ungrouped_partitions).items():
        yield name, [partition.partition_index for partition in partitions]
