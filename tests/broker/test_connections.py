"""Limits on connections and bad peers, on real sockets; with KAFKA_TEST_BROKER=apache they show
what Apache Kafka does."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack

import pytest

from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.server.runtime.rate_limited_logger import LINES_MAX, PERIOD_S
from support.broker import Kavka, StartBroker, broker_kind
from support.crowd import connect, is_served
from support.ports import HOST, free_port
from support.process import BrokerProcess
from support.wait import eventually

WITHIN_S = 60.0
ONLY_KAVKA = pytest.mark.skipif(broker_kind() is not Kavka, reason="the oracle has more listeners")
OTHER = "127.0.0.2"


def advertised(connection: socket.socket) -> tuple[str, int]:
    """The address that Metadata gives for the only broker."""
    connection.sendall(wire_client.framed(wire_client.encode("Metadata", 1, 1, topics=[])))
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    _, answer = wire_client.decode("Metadata", 1, connection.recv(size, socket.MSG_WAITALL))
    (known,) = answer.brokers
    return known.host, known.port


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker hangs up, and says nothing."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_too_many_from_one_address_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker(
        **{"max.connections.per.ip": "3", "max.connections.per.ip.overrides": f"{OTHER}:1"}
    )
    with ExitStack() as stack:
        first = stack.enter_context(connect(broker.port, source=OTHER))
        assert is_served(first)
        assert not is_served(stack.enter_context(connect(broker.port, source=OTHER)))
        own = [stack.enter_context(connect(broker.port, source="127.0.0.3")) for _ in range(4)]
        served = [is_served(connection) for connection in own]
        assert served == [True, True, True, False]
        first.close()
        eventually(
            lambda: is_served(stack.enter_context(connect(broker.port, source=OTHER))),
            within_s=WITHIN_S,
            what="who has left makes room",
        )


def test_idle_connections_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker(**{"connections.max.idle.ms": "2000"})
    with ExitStack() as stack:

        def served() -> socket.socket | None:
            """One that has not been idle for too long before it asks."""
            connection = stack.enter_context(connect(broker.port))
            return connection if is_served(connection) else None

        assert is_closed(eventually(served, within_s=WITHIN_S, what="one is served"))


def test_at_the_limit_a_connection_waits(start_broker: StartBroker) -> None:
    broker = start_broker(**{"max.connections": "2"})
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(connect(broker.port)) for _ in range(3))
        assert is_served(first)
        assert is_served(second)
        third.settimeout(0.5)
        with pytest.raises(TimeoutError):
            is_served(third)
        third.settimeout(WITHIN_S)
        first.close()
        assert third.recv(4, socket.MSG_WAITALL), "the answer to what was sent while it waited"


@ONLY_KAVKA
def test_each_listener_advertises_its_address(start_broker: StartBroker) -> None:
    outside = free_port()
    inside = free_port()
    broker = start_broker(
        **{
            "listeners": f"PLAINTEXT://{HOST}:{inside},OUTSIDE://{HOST}:{outside}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{inside},OUTSIDE://localhost:{outside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
    )
    assert broker.port == inside
    with connect(inside) as inner, connect(outside) as outer:
        assert advertised(inner) == (HOST, inside)
        assert advertised(outer) == ("localhost", outside)


@ONLY_KAVKA
def test_metadata_has_the_address_that_was_dialled(start_broker: StartBroker) -> None:
    """127.0.0.1 and 127.0.0.5 are both this machine: each client is given the one it knows."""
    port = free_port()
    broker = start_broker(
        **{
            "listeners": f"PLAINTEXT://:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:19092",
            "kavka.advertised.dialled.listeners": "PLAINTEXT",
        }
    )
    assert broker.port
    for host in (HOST, "127.0.0.5"):
        with socket.create_connection((host, port)) as connection:
            assert advertised(connection) == (host, 19092)


LINES = {
    bytes.fromhex("16030100c8010000c40303"): "a TLS handshake",
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n": "an HTTP request",
    struct.pack(">i", -5) + b"negative": "negative request size -5",
    struct.pack(">i", 2_000_000_000): "request of 2000000000 bytes",
    wire_client.framed(struct.pack(">hhih", 999, 0, 1, -1)): "unknown API key 999",
    wire_client.framed(b""): "has an incomplete header",
}


def test_what_is_no_request_closes_with_one_line(broker: BrokerProcess) -> None:
    for sent, line in LINES.items():
        with connect(broker.port) as connection:
            host, port = connection.getsockname()
            connection.sendall(sent)
            assert is_closed(connection)
        if isinstance(broker, Kavka):
            where = f"closing connection from {host}:{port} on PLAINTEXT: "
            (found,) = eventually(
                lambda: [text for text in broker.output().splitlines() if where in text],  # noqa: B023
                within_s=WITHIN_S,
                what=f"a line about {line}",
            )
            assert line in found
    with connect(broker.port) as connection:
        assert is_served(connection)


def test_half_a_request_and_no_more(broker: BrokerProcess) -> None:
    whole = wire_client.framed(wire_client.encode("ApiVersions", 0, 7))
    with connect(broker.port) as half, connect(broker.port) as slow:
        half.sendall(whole[:7])
        half.shutdown(socket.SHUT_WR)
        assert is_closed(half)
        for byte in whole:
            slow.sendall(bytes([byte]))
        assert slow.recv(4, socket.MSG_WAITALL)


def test_log_lines_about_bad_requests_are_limited(start_broker: StartBroker) -> None:
    broker = start_broker()
    began = time.monotonic()
    for _ in range(300):
        with connect(broker.port) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_closed(connection)
    if isinstance(broker, Kavka):
        lines = sum("an HTTP request" in line for line in broker.output().splitlines())
        assert lines <= 60 + LINES_MAX * (time.monotonic() - began) / PERIOD_S
    with connect(broker.port) as connection:
        assert is_served(connection)


def ask_and_hang_up(port: int, frame: bytes) -> None:
    """Send a request and close, without a look at the answer."""
    with connect(port) as connection:
        connection.sendall(wire_client.framed(frame))


def existing(port: int) -> set[str]:
    """The topics that there are."""
    with connect(port) as connection:
        connection.sendall(wire_client.framed(wire_client.encode("Metadata", 1, 1, topics=None)))
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        _, answer = wire_client.decode("Metadata", 1, connection.recv(size, socket.MSG_WAITALL))
        return {topic.name for topic in answer.topics}


def test_requests_are_processed_after_the_client_has_gone(
    start_broker: StartBroker,
) -> None:
    """All of a request of many topics, which takes its time."""
    broker = start_broker()
    names = [[f"{part}-{number}" for number in range(30)] for part in range(3)]
    creations = [
        wire_client.encode(
            "CreateTopics",
            5,
            number,
            topics=[new_topic(name, 1) for name in part],
            timeout_ms=10_000,
            validate_only=False,
        )
        for number, part in enumerate(names)
    ]
    for creation in creations:
        ask_and_hang_up(broker.port, creation)
    expected = {name for part in names for name in part}
    eventually(
        lambda: existing(broker.port) >= expected, within_s=WITHIN_S, what="all topics are created"
    )
    deletions = [
        wire_client.encode("DeleteTopics", 3, number, topic_names=part, timeout_ms=10_000)
        for number, part in enumerate(names)
    ]
    for deletion in deletions:
        ask_and_hang_up(broker.port, deletion)
    eventually(
        lambda: not existing(broker.port) & expected, within_s=WITHIN_S, what="all are deleted"
    )
