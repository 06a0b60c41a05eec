"""Damaged frames to Kavka and to Apache Kafka: what closes a connection there closes it here.

Compared are frames of APIs and versions that both serve; not compared is how they answer, which
`tests/differential` does for requests that can be read.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fuzz.frames import Frame, Frames
from fuzz.session import SETTINGS
from fuzz.world import prepare
from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.judges import FIRST_IN_NEW
from kavka.server.connections.dispatch import HANDLERS
from support.broker import Kavka
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess

FRAMES = 500
SEED = 1_234
ANSWER_WITHIN_S = 1.0
COMPARED_MIN = FRAMES / 3

APIS = range(95)
"""Keys that Apache Kafka knows."""

CLOSED, OPEN, UNDECIDED = "closed", "open", "undecided"


@pytest.fixture(scope="module")
def brokers(
    kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[BrokerProcess]]:
    """Kavka, and Apache Kafka with the same topics."""
    settings = {key: value for key, value in SETTINGS.items() if key != "node.id"}
    with ExitStack() as stack:
        started: list[BrokerProcess] = []
        for kind, given in ((Kavka, SETTINGS), (ApacheKafka, settings)):
            broker = kind(tmp_path_factory.mktemp("judged"), given)
            stack.callback(broker.close)
            started.append(broker.start())
        yield started


def test_the_same_bytes_close_a_connection(brokers: list[BrokerProcess]) -> None:
    kavka, apache = brokers
    served = served_by(apache)
    ours, theirs = (Frames(SEED, prepare(broker)) for broker in brokers)
    differ = []
    compared = 0
    for frame, their_frame in zip(ours.each(FRAMES), theirs.each(FRAMES), strict=True):
        if not is_comparable(frame, served):
            continue
        theirs_is = outcome(apache, their_frame)
        if theirs_is == UNDECIDED:  # it waits, or has failed within and forgotten to answer
            continue
        ours_is = outcome(kavka, frame)
        if ours_is == UNDECIDED:
            continue
        compared += 1
        if ours_is != theirs_is:
            label = f"{frame.number}: {ours.kinds[frame.kind]}, {ours.targets[frame.target]}"
            differ.append(f"{label}: {theirs_is} there, {ours_is} here: {frame.stream.hex(' ')}")
    assert not differ, "\n".join(differ)
    assert compared >= COMPARED_MIN


def served_by(broker: BrokerProcess) -> set[tuple[int, int]]:
    """(API, version) of all that Kavka and this broker serve; it lists old versions of Produce
    that it does not serve, for librdkafka's sake (KAFKA-18659)."""
    request = wire_client.framed(wire_client.encode("ApiVersions", 0))
    with socket.create_connection((HOST, broker.port)) as connection:
        connection.sendall(request)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        _, answer = wire_client.decode("ApiVersions", 0, connection.recv(size, socket.MSG_WAITALL))
    return {
        (api.api_key, version)
        for api in answer.api_keys
        if api.api_key in HANDLERS
        for version in range(api.min_version, api.max_version + 1)
        if HANDLERS[api.api_key][0].serves(version)
        if version >= FIRST_IN_NEW.get(HANDLERS[api.api_key][0].name, 0)
    }


def is_comparable(frame: Frame, served: set[tuple[int, int]]) -> bool:
    """Whether both serve what the frame asks for, or neither does."""
    if len(frame.stream) < 8:
        return True
    key, version = struct.unpack_from(">hh", frame.stream, 4)
    return (key, version) in served or key not in APIS


def outcome(broker: BrokerProcess, frame: Frame) -> str:
    """What becomes of a connection that sends this."""
    with socket.create_connection((HOST, broker.port)) as connection:
        connection.settimeout(ANSWER_WITHIN_S)
        try:
            connection.sendall(frame.stream)
            if frame.ends:
                connection.shutdown(socket.SHUT_WR)
            return OPEN if connection.recv(1) else CLOSED
        except TimeoutError:
            return UNDECIDED
        except OSError:
            return CLOSED
