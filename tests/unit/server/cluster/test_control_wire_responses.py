"""Responses to the controller on the wire, in every version: a code for each partition."""

from __future__ import annotations

import uuid
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.cluster import control_wire_responses as wire_responses
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaResponse,
    TopicPartition,
)
from kavka.wire.apis import leader_and_isr, stop_replica, update_metadata
from kavka.wire.client_frames import decode_response
from kavka.wire.codec.frames import encode_response
from kavka.wire.errors import ErrorCode
from support.control_requests import LEADER_AND_ISR, STOP_REPLICA

SOME = settings(max_examples=10)
CODES = st.sampled_from([code for code in ErrorCode if code is not ErrorCode.NONE])
UNKNOWN = 30_000
"""An error code that nobody knows."""


def versions(module: ModuleType) -> pytest.MarkDecorator:
    api = module.API
    return pytest.mark.parametrize("version", range(api.lowest, api.highest + 1))


def transferred(module: ModuleType, version: int, response: Any) -> Any:
    """What the controller receives."""
    frame = b"".join(map(bytes, encode_response(module.API, version, 1, response)))
    return decode_response(module.API, version, memoryview(frame)[4:])


def places(request: LeaderAndIsr | StopReplica) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]


def errors_for(data: st.DataObject, request: Any) -> dict[TopicPartition, ErrorCode]:
    failed = [place for place in places(request) if data.draw(st.booleans())]
    return {place: data.draw(CODES) for place in failed}


# -- LeaderAndIsr ------------------------------------------------------------------------------


@versions(leader_and_isr)
@SOME
@given(request=LEADER_AND_ISR, data=st.data())
def test_leader_and_isr_s_errors_arrive(
    version: int, request: LeaderAndIsr, data: st.DataObject
) -> None:
    response = LeaderAndIsrResponse(ErrorCode.NONE, errors_for(data, request))
    message = wire_responses.leader_and_isr_response(request, response, version)
    received = transferred(leader_and_isr, version, message)
    assert wire_responses.read_leader_and_isr_response(request, received) == response
    codes = codes_of(request, received)
    assert codes == {
        place: response.partition_errors.get(place, ErrorCode.NONE) for place in places(request)
    }


@versions(leader_and_isr)
@SOME
@given(request=LEADER_AND_ISR, code=CODES)
def test_a_refusal_of_leader_and_isr_has_the_code_everywhere(
    version: int, request: LeaderAndIsr, code: ErrorCode
) -> None:
    response = LeaderAndIsrResponse(code, {})
    message = wire_responses.leader_and_isr_response(request, response, version)
    received = transferred(leader_and_isr, version, message)
    assert codes_of(request, received) == dict.fromkeys(places(request), code)
    assert wire_responses.read_leader_and_isr_response(request, received) == response


def codes_of(request: LeaderAndIsr, received: Any) -> dict[TopicPartition, int]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    found = {
        (error.topic_name, error.partition_index, error.error_code)
        for error in received.partition_errors
    }
    found |= {
        (names[topic.topic_id], error.partition_index, error.error_code)
        for topic in received.topics
        for error in topic.partition_errors
    }
    return {TopicPartition(name, index): code for name, index, code in found}


@pytest.mark.parametrize("topic_id", [None, uuid.UUID(int=5)])
def test_topics_that_were_not_asked_for_are_left_out(topic_id: uuid.UUID | None) -> None:
    topic = leader_and_isr.TopicErrors(topic_id, [leader_and_isr.PartitionError(0, 56)])
    received = leader_and_isr.LeaderAndIsrResponse(0, topics=[topic])
    read = wire_responses.read_leader_and_isr_response(LeaderAndIsr(1, 1, 1, (), ()), received)
    assert read == LeaderAndIsrResponse(ErrorCode.NONE, {})


# -- StopReplica -------------------------------------------------------------------------------


@versions(stop_replica)
@SOME
@given(request=STOP_REPLICA, data=st.data())
def test_stop_replica_s_errors_arrive(
    version: int, request: StopReplica, data: st.DataObject
) -> None:
    response = StopReplicaResponse(ErrorCode.NONE, errors_for(data, request))
    message = wire_responses.stop_replica_response(request, response)
    received = transferred(stop_replica, version, message)
    assert wire_responses.read_stop_replica_response(received) == response
    assert {
        TopicPartition(error.topic_name, error.partition_index): error.error_code
        for error in received.partition_errors
    } == {place: response.partition_errors.get(place, ErrorCode.NONE) for place in places(request)}


@versions(stop_replica)
@SOME
@given(request=STOP_REPLICA, code=CODES)
def test_a_refusal_of_stop_replica_has_no_partitions(
    version: int, request: StopReplica, code: ErrorCode
) -> None:
    response = StopReplicaResponse(code, {})
    message = wire_responses.stop_replica_response(request, response)
    received = transferred(stop_replica, version, message)
    assert received.partition_errors == []
    assert wire_responses.read_stop_replica_response(received) == response


# -- UpdateMetadata, and codes -----------------------------------------------------------------


@versions(update_metadata)
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH])
def test_update_metadata_s_code_arrives(version: int, code: ErrorCode) -> None:
    message = wire_responses.update_metadata_response(code)
    received = transferred(update_metadata, version, message)
    assert wire_responses.read_update_metadata_response(received) is code


def test_codes_that_nobody_knows_are_unknown_errors() -> None:
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    of_partition = stop_replica.PartitionError("t", 0, UNKNOWN)
    read = wire_responses.read_stop_replica_response(
        stop_replica.StopReplicaResponse(0, [of_partition])
    )
    assert read.partition_errors == {TopicPartition("t", 0): unknown}
    response = stop_replica.StopReplicaResponse(UNKNOWN)
    assert wire_responses.read_stop_replica_response(response) == StopReplicaResponse(unknown, {})
