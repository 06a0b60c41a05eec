"""The controller's requests on the wire: as sent, and as older versions say them."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import schemas, stock_codec
from kavka.server.cluster import control_wire
from kavka.server.cluster.control_messages import (
    NO_EPOCH,
    NO_TOPIC_ID,
    LeaderAndIsr,
    StopReplica,
    StopReplicaPartitionState,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
)
from kavka.wire.apis import leader_and_isr, stop_replica, update_metadata
from kavka.wire.client_frames import encode_request
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support import control_requests
from support.control_requests import LEADER_AND_ISR, PROTOCOLS, STOP_REPLICA, UPDATE_METADATA

SOME = settings(max_examples=10)
HEAD_BYTES = 16
"""Of a request in a flexible version, with a client id of one letter and the frame's length."""


def versions(module: ModuleType) -> pytest.MarkDecorator:
    api = module.API
    return pytest.mark.parametrize("version", range(api.lowest, api.highest + 1))


def sent(module: ModuleType, request: Any) -> tuple[Any, bytes]:
    """What a broker receives in the newest version: (message, bytes of the body)."""
    api = module.API
    frame = b"".join(map(bytes, encode_request(api, api.highest, 1, "1", request)))
    message, end = api.decoder(api.highest)(memoryview(frame), HEAD_BYTES)
    assert end == len(frame)
    return message, frame[HEAD_BYTES:]


def received(module: ModuleType, version: int, values: Any) -> Any:
    """What a broker receives of another writer."""
    name = module.API.request_name
    found = schemas.as_namespace(schemas.schema(name), values)
    body = stock_codec.encode(name, version, found)
    return module.API.decoder(version)(memoryview(body), 0)[0]


# -- LeaderAndIsr ------------------------------------------------------------------------------


@SOME
@given(LEADER_AND_ISR)
def test_leader_and_isr_is_read_as_it_was_sent(decision: LeaderAndIsr) -> None:
    message, _ = sent(leader_and_isr, control_wire.leader_and_isr_request(decision))
    assert (message.is_k_raft_controller, message.type) == (False, 0)
    assert run_at_once(control_wire.read_leader_and_isr(message)) == decision


@versions(leader_and_isr)
@SOME
@given(decision=LEADER_AND_ISR)
def test_leader_and_isr_of_other_versions(version: int, decision: LeaderAndIsr) -> None:
    values = control_requests.values_of_leader_and_isr(decision)
    message = received(leader_and_isr, version, values)
    assert run_at_once(control_wire.read_leader_and_isr(message)) == _without_later_fields(
        decision, version
    )


def _without_later_fields(decision: LeaderAndIsr, version: int) -> LeaderAndIsr:
    absent: dict[str, Any] = {
        name: default
        for name, since, default in (
            ("is_new", 1, False),
            ("adding_replicas", 3, ()),
            ("removing_replicas", 3, ()),
            ("leader_recovery_state", 6, 0),
        )
        if version < since
    }
    topics = tuple(
        topic._replace(
            topic_id=topic.topic_id if version >= 5 else NO_TOPIC_ID,
            partition_states=tuple(state._replace(**absent) for state in topic.partition_states),
        )
        for topic in decision.topic_states
    )
    epoch = decision.broker_epoch if version >= 2 else -1
    return decision._replace(broker_epoch=epoch, topic_states=topics)


# -- UpdateMetadata ----------------------------------------------------------------------------


def read_whole(message: Any, version: int) -> UpdateMetadata:
    (update,) = control_wire.read_update_metadata(message, version, partitions_max=1000)
    return update


@SOME
@given(UPDATE_METADATA, st.integers(1, 4))
def test_update_metadata_in_parts(update: UpdateMetadata, partitions_max: int) -> None:
    """They say the same together, in the same order. Those that end within a topic say so."""
    message, _ = sent(update_metadata, control_wire.update_metadata_request(update))
    parts = list(control_wire.read_update_metadata(message, 8, partitions_max=partitions_max))
    found: list[Any] = []
    numbers = [
        number for number, topic in enumerate(update.topic_states) for _ in topic.partition_states
    ]
    for part in parts:
        size = sum(len(topic.partition_states) for topic in part.topic_states)
        assert size <= partitions_max
        topics = numbers[len(found) + size - 1 : len(found) + size + 1] if size else []
        ends_within = len(topics) == 2 and topics[0] == topics[1]
        expected = update._replace(is_part=update.is_part or ends_within)
        assert part._replace(topic_states=update.topic_states) == expected
        for topic in part.topic_states:
            found += [(topic.topic_name, topic.topic_id, state) for state in topic.partition_states]
    assert found == [
        (topic.topic_name, topic.topic_id, state)
        for topic in update.topic_states
        for state in topic.partition_states
    ]


@SOME
@given(UPDATE_METADATA)
def test_update_metadata_is_read_as_it_was_sent(update: UpdateMetadata) -> None:
    message, body = sent(update_metadata, control_wire.update_metadata_request(update))
    assert (message.is_k_raft_controller, message.type) == (False, int(update.is_part))
    assert update.is_part or body.endswith(b"\0"), "the type, which is a tag, was written"
    assert read_whole(message, 8) == update


@versions(update_metadata)
@SOME
@given(update=UPDATE_METADATA)
def test_update_metadata_of_other_versions(version: int, update: UpdateMetadata) -> None:
    values = control_requests.values_of_update_metadata(update)
    message = received(update_metadata, version, values)
    expected = update._replace(
        is_part=False,
        broker_epoch=update.broker_epoch if version >= 5 else -1,
        topic_states=tuple(
            topic._replace(
                topic_id=topic.topic_id if version >= 7 else NO_TOPIC_ID,
                partition_states=topic.partition_states
                if version >= 4
                else tuple(state._replace(offline_replicas=()) for state in topic.partition_states),
            )
            for topic in update.topic_states
        ),
        live_brokers=tuple(_as_known_in(version, broker) for broker in update.live_brokers),
    )
    assert read_whole(message, version) == expected


def _as_known_in(version: int, broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    endpoints = broker.endpoints
    if version == 0:
        first = endpoints[0]
        endpoints = (UpdateMetadataEndpoint(first.port, first.host, "PLAINTEXT", "PLAINTEXT"),)
    elif version < 3:
        endpoints = tuple(
            endpoint._replace(listener=endpoint.security_protocol) for endpoint in endpoints
        )
    return broker._replace(endpoints=endpoints, rack=broker.rack if version >= 2 else "")


def test_security_protocols_have_their_numbers() -> None:
    for number, name in enumerate(PROTOCOLS):
        assert control_wire.security_protocol_number(name) == number
        assert control_wire.security_protocol_name(number) == name


@pytest.mark.parametrize("number", [-1, 4])
def test_an_unknown_security_protocol_is_refused(number: int) -> None:
    with pytest.raises(ApiError) as caught:
        control_wire.security_protocol_name(number)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


# -- StopReplica -------------------------------------------------------------------------------


@SOME
@given(STOP_REPLICA)
def test_stop_replica_is_read_as_it_was_sent(stop: StopReplica) -> None:
    message, _ = sent(stop_replica, control_wire.stop_replica_request(stop))
    assert message.is_k_raft_controller is False
    assert control_wire.read_stop_replica(message) == stop


@pytest.mark.parametrize("delete", [False, True])
@versions(stop_replica)
@SOME
@given(stop=STOP_REPLICA)
def test_stop_replica_of_other_versions(version: int, delete: bool, stop: StopReplica) -> None:
    values = control_requests.values_of_stop_replica(stop, delete=delete)
    read = control_wire.read_stop_replica(received(stop_replica, version, values))
    expected = stop._replace(broker_epoch=stop.broker_epoch if version >= 1 else -1)
    if version < 3:
        topics = tuple(
            topic._replace(
                partition_states=tuple(
                    StopReplicaPartitionState(state.partition_index, NO_EPOCH, delete)
                    for state in topic.partition_states
                )
            )
            for topic in stop.topic_states
        )
        expected = expected._replace(topic_states=topics)
    assert read == expected


def test_partitions_beside_their_topics_are_joined_in_the_order_of_topics() -> None:
    named = [("b", 1), ("a", 0), ("b", 0)]
    partitions = [SimpleNamespace(topic_name=name, partition_index=index) for name, index in named]
    request = SimpleNamespace(
        controller_id=1,
        controller_epoch=2,
        broker_epoch=-1,
        delete_partitions=True,
        ungrouped_partitions=partitions,
        topics=(),
        topic_states=(),
    )
    read = control_wire.read_stop_replica(request)
    assert [
        (topic.topic_name, [state.partition_index for state in topic.partition_states])
        for topic in read.topic_states
    ] == [("b", [1, 0]), ("a", [0])]
