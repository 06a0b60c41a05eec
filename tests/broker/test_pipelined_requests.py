"""Requests that are sent before the responses to earlier ones have come. Each sees what was written
before it; all before the end of the stream, or before what is no request, are carried out and
answered. With KAFKA_TEST_BROKER=apache it is shown that Apache Kafka does the same."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kavka.compat_tests.raw.codec import wire_client
from support import logs
from support.broker import Kavka, broker_kind
from support.clients.kafka_python import create_topic, offsets
from support.crowd import connect
from support.process import BrokerProcess
from support.wait import eventually

WITHIN_S = 120.0
LATEST = -1
WAIT_MS = 700
"""How long a Fetch waits for more than there is."""

CONFIGS: list[dict[str, str]] = [{}, {"flush.messages": "1"}]
if broker_kind() is Kavka:
    CONFIGS.append({"kavka.durability": "fsync"})  # then a response to Produce waits for the disk

ENDS: dict[str, Callable[[socket.socket], None]] = {
    "half-close": lambda connection: connection.shutdown(socket.SHUT_WR),
    "unknown-api": lambda connection: connection.sendall(
        wire_client.framed(struct.pack(">hhih", 999, 0, 1, -1))
    ),
    "negative-size": lambda connection: connection.sendall(struct.pack(">i", -2)),
}


def produce(topic: str, number: int, *, acks: int = -1, size: int = 10) -> bytes:
    partitions = [{"index": 0, "records": bytes(logs.batch([b"v" * size]))}]
    return wire_client.encode(
        "Produce",
        9,
        number,
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[{"name": topic, "partition_data": partitions}],
    )


def long_fetch(topic: str, number: int) -> bytes:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    return wire_client.encode(
        "Fetch",
        4,
        number,
        replica_id=-1,
        max_wait_ms=WAIT_MS,
        min_bytes=1 << 30,
        max_bytes=1 << 20,
        isolation_level=0,
        topics=[{"topic": topic, "partitions": partitions}],
    )


def metadata(number: int) -> bytes:
    return wire_client.encode("Metadata", 1, number, topics=[])


def list_offsets(topic: str, number: int) -> bytes:
    partitions = [{"partition_index": 0, "timestamp": LATEST}]
    return wire_client.encode(
        "ListOffsets",
        1,
        number,
        replica_id=-1,
        topics=[{"name": topic, "partitions": partitions}],
    )


def responses(connection: socket.socket) -> list[bytes]:
    """All responses, until the broker closes."""
    found = []
    with connection.makefile("rb") as stream:
        while head := stream.read(4):
            (size,) = struct.unpack(">i", head)
            body = stream.read(size)
            assert len(body) == size, "a response ends in the middle"
            found.append(body)
    return found


def responses_to(port: int, requests: Iterable[bytes], end: str) -> list[bytes]:
    """Send all at once, then the end; the responses."""
    with connect(port) as connection:
        connection.settimeout(WITHIN_S)
        connection.sendall(b"".join(map(wire_client.framed, requests)))
        ENDS[end](connection)
        return responses(connection)


def answered(port: int, requests: Iterable[bytes], end: str) -> list[int]:
    """The same; correlation ids of the responses."""
    return [int.from_bytes(body[:4], "big") for body in responses_to(port, requests, end)]


@pytest.fixture(params=CONFIGS, ids=lambda configs: "-".join(configs.values()) or "default")
def place(request: pytest.FixtureRequest, broker: BrokerProcess, topic: str) -> str:
    """A topic that has its leader."""
    create_topic(broker.bootstrap, topic, 1, request.param)
    offsets(broker.bootstrap, topic, 1)
    return topic


@pytest.mark.parametrize("end", ENDS)
def test_all_before_the_end_is_answered(broker: BrokerProcess, place: str, end: str) -> None:
    requests = [
        produce(place, 0),
        metadata(1),
        long_fetch(place, 2),
        metadata(3),
        *(produce(place, number, size=100_000) for number in range(4, 24)),
        *(produce(place, number) for number in range(24, 224)),
        metadata(224),
    ]
    assert answered(broker.port, requests, end) == list(range(len(requests)))
    _, ends = offsets(broker.bootstrap, place, 1)
    assert ends == {0: 221}


@pytest.mark.parametrize("end", ENDS)
def test_a_fetch_that_waits_is_answered(broker: BrokerProcess, place: str, end: str) -> None:
    requests = [produce(place, 0), long_fetch(place, 1), metadata(2)]
    began = time.monotonic()
    assert answered(broker.port, requests, end) == [0, 1, 2]
    assert time.monotonic() - began >= WAIT_MS / 1000, "nor does it end sooner"


@pytest.mark.parametrize("end", ENDS)
def test_all_before_the_end_is_written(broker: BrokerProcess, place: str, end: str) -> None:
    unanswered = [produce(place, number, acks=0, size=50_000) for number in range(200)]
    assert answered(broker.port, [metadata(1000), *unanswered, metadata(1001)], end) == [1000, 1001]
    eventually(
        lambda: offsets(broker.bootstrap, place, 1)[1] == {0: 200},
        within_s=WITHIN_S,
        what="all is written",
    )


def test_each_sees_what_was_written_before_it(broker: BrokerProcess, place: str) -> None:
    requests = [
        *(produce(place, number, size=100_000) for number in range(5)),
        list_offsets(place, 5),
        produce(place, 6),
        list_offsets(place, 7),
        list_offsets(place, 8),
        *(produce(place, number) for number in range(9, 30)),
        list_offsets(place, 30),
    ]
    bodies = responses_to(broker.port, requests, "half-close")
    ends = []
    for number in (5, 7, 8, 30):
        correlation_id, answer = wire_client.decode("ListOffsets", 1, bodies[number])
        assert correlation_id == number
        ends.append(answer.topics[0].partitions[0].offset)
    assert ends == [5, 6, 6, 27]


def test_what_nobody_acknowledges_is_seen_behind_it(broker: BrokerProcess, place: str) -> None:
    """With acks=0 there is no response that could wait for the flush; what follows does."""
    requests = [
        *(produce(place, number, acks=0) for number in range(3)),
        list_offsets(place, 3),
        *(produce(place, number, acks=0, size=100_000) for number in range(4, 9)),
        list_offsets(place, 9),
    ]
    found = []
    for body in responses_to(broker.port, requests, "half-close"):
        _, answer = wire_client.decode("ListOffsets", 1, body)
        found.append(answer.topics[0].partitions[0].offset)
    assert found == [3, 8]


def test_admin_requests_are_carried_out_in_turn(broker: BrokerProcess, topic: str) -> None:
    """As librdkafka sends those that a program does not wait for one by one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    # What librdkafka is asked before it is connected to the controller it sends in any order.
    admin.create_topics([NewTopic(f"{topic}-first", 1, 1)])[f"{topic}-first"].result(WITHIN_S)
    operations = [
        admin.create_topics([NewTopic(topic, 1, 1)]),
        admin.create_partitions([NewPartitions(topic, 3)]),
        admin.delete_topics([topic]),
        admin.create_topics([NewTopic(topic, 5, 1)]),
    ]
    for futures in operations:
        futures[topic].result(WITHIN_S)
    eventually(
        lambda: len(admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions) == 5,
        within_s=WITHIN_S,
        what="the last topic is there",
    )


def test_each_sees_what_was_changed_before_it(broker: BrokerProcess, topic: str) -> None:
    creation = wire_client.encode(
        "CreateTopics",
        5,
        0,
        topics=[wire_client.new_topic(topic, 3)],
        timeout_ms=30_000,
        validate_only=False,
    )
    deletion = wire_client.encode("DeleteTopics", 3, 1, topic_names=[topic], timeout_ms=30_000)
    bodies = responses_to(
        broker.port, [creation, deletion, creation, deletion, creation], "half-close"
    )
    for body, name in zip(bodies, ["CreateTopics", "DeleteTopics"] * 3, strict=False):
        _, answer = wire_client.decode(name, 5 if name == "CreateTopics" else 3, body)
        done = answer.topics if name == "CreateTopics" else answer.responses
        assert [result.error_code for result in done] == [0]
    assert len(bodies) == 5
    eventually(
        lambda: offsets(broker.bootstrap, topic, 3)[1] == dict.fromkeys(range(3), 0),
        within_s=WITHIN_S,
        what="the last topic is there",
    )
