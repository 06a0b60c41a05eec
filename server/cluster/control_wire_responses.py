"""Responses to the controller's requests as messages of the wire, and back.

A broker of Apache Kafka 3.9 responds with a code for every partition in the request, 0 where it
succeeded, and its controller counts on that: by 0 it knows that a replica is online again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
)
from kavka.wire.apis import leader_and_isr, stop_replica, update_metadata
from kavka.wire.errors import ErrorCode

# -- LeaderAndIsr ------------------------------------------------------------------------------


def leader_and_isr_response(
    request: LeaderAndIsr, response: LeaderAndIsrResponse, version: int
) -> leader_and_isr.LeaderAndIsrResponse:
    """The response to `request`, which came in this version."""
    if version >= leader_and_isr.TOPIC_IDS_SINCE:
        topics = [
            leader_and_isr.TopicErrors(
                topic.topic_id,
                [
                    leader_and_isr.PartitionError(tp.partition, _code_of(tp, response))
                    for tp in _partitions(topic)
                ],
            )
            for topic in request.topic_states
        ]
        return leader_and_isr.LeaderAndIsrResponse(response.error_code, topics=topics)
    errors = [
        leader_and_isr.PartitionError(tp.partition, _code_of(tp, response), tp.topic)
        for topic in request.topic_states
        for tp in _partitions(topic)
    ]
    return leader_and_isr.LeaderAndIsrResponse(response.error_code, errors)


def read_leader_and_isr_response(request: LeaderAndIsr, response: Any) -> LeaderAndIsrResponse:
    """The response to `request`, in any version. Topics whose id is not in the request are left
    out, as in Apache Kafka's controller."""
    if response.error_code != ErrorCode.NONE:
        return LeaderAndIsrResponse(_known(response.error_code), {})
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    codes = {
        TopicPartition(error.topic_name, error.partition_index): error.error_code
        for error in response.partition_errors
    }
    for topic in response.topics:
        name = names.get(topic.topic_id)
        if name is not None:
            for error in topic.partition_errors:
                codes[TopicPartition(name, error.partition_index)] = error.error_code
    return LeaderAndIsrResponse(ErrorCode.NONE, _errors(codes.items()))


# -- StopReplica -------------------------------------------------------------------------------


def stop_replica_response(
    request: StopReplica, response: StopReplicaResponse
) -> stop_replica.StopReplicaResponse:
    """The response to `request`, in any version. One that refuses it whole has no partitions."""
    if response.error_code != ErrorCode.NONE:
        return stop_replica.StopReplicaResponse(response.error_code)
    errors = [
        stop_replica.PartitionError(tp.topic, tp.partition, _code_of(tp, response))
        for topic in request.topic_states
        for tp in _partitions(topic)
    ]
    return stop_replica.StopReplicaResponse(ErrorCode.NONE, errors)


def read_stop_replica_response(response: Any) -> StopReplicaResponse:
    """A response that was received, in any version."""
    if response.error_code != ErrorCode.NONE:
        return StopReplicaResponse(_known(response.error_code), {})
    codes = (
        (TopicPartition(error.topic_name, error.partition_index), error.error_code)
        for error in response.partition_errors
    )
    return StopReplicaResponse(ErrorCode.NONE, _errors(codes))


# -- UpdateMetadata ----------------------------------------------------------------------------


def update_metadata_response(code: ErrorCode) -> update_metadata.UpdateMetadataResponse:
    """The response, in any version."""
    return update_metadata.UpdateMetadataResponse(code)


def read_update_metadata_response(response: Any) -> ErrorCode:
    """The code in a response that was received, in any version."""
    return _known(response.error_code)


# -- codes -------------------------------------------------------------------------------------


def _partitions(topic: Any) -> Iterator[TopicPartition]:
    for state in topic.partition_states:
        yield TopicPartition(topic.topic_name, state.partition_index)


def _code_of(tp: TopicPartition, response: LeaderAndIsrResponse | StopReplicaResponse) -> ErrorCode:
    if response.error_code != ErrorCode.NONE:
        return response.error_code
    return response.partition_errors.get(tp, ErrorCode.NONE)


def _errors(codes: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, ErrorCode]:
    return {tp: _known(code) for tp, code in codes if code != ErrorCode.NONE}


def _known(code: int) -> ErrorCode:
    """A code that a newer broker may have invented is an unknown error, as in Apache Kafka."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
