"""ApiVersions: the versions served; the responses to odd requests are Apache Kafka's."""

from __future__ import annotations

import struct

import pytest

from kavka.compat_tests.raw.codec import wire_client
from kavka.server.connections.dispatch import HANDLERS
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until

SOFTWARE = {"client_software_name": "tester", "client_software_version": "1.0-x"}
KEY = 18
HIGHEST = 4

_OF_GROUPS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69}
SERVED = {0, 1, 2, 3, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 43, 44, 45, 46, 60, 61, 74, 75}
SERVED |= _OF_GROUPS | {24, 25, 26, 27, 28, 65, 66}
SERVED |= {55, 57}
SERVED |= {34}
"""Every API that is to be served so far, by number."""

UNSUPPORTED_VERSION = bytes.fromhex("00000007 0023 00000001 0012 0000 0004")
"""Correlation id 7, code 35, one entry: key 18, versions 0 to 4. What Apache Kafka 4.3.1 sends."""


@pytest.mark.parametrize("version", range(HIGHEST + 1))
@scenario()
async def test_what_is_served(broker: MemoryBroker, version: int) -> None:
    answer = await broker.ask("ApiVersions", version, **SOFTWARE)
    assert answer.error_code == Code.NONE
    received = {
        api_version.api_key: (api_version.min_version, api_version.max_version)
        for api_version in answer.api_keys
    }
    assert set(received) == SERVED
    for api, _ in HANDLERS.values():
        if api.key in SERVED:
            assert received[api.key] == (api.lowest, api.highest)
    assert received[0] == (0, 13), "librdkafka turns compression off where Produce 0 is missing"
    assert received[KEY] == (0, HIGHEST)


ALWAYS = {"group.version": (1, 1), "metadata.version": (30, 30)}


@scenario("kavka.http.listener=:0")
async def test_clients_push_where_metrics_are_shown(broker: MemoryBroker) -> None:
    """As Apache Kafka, which lists these where it has a reporter that takes metrics of clients."""
    answer = await broker.ask("ApiVersions", 4, **SOFTWARE)
    received = {
        api_version.api_key: (api_version.min_version, api_version.max_version)
        for api_version in answer.api_keys
    }
    assert set(received) == SERVED | {71, 72} == set(HANDLERS)
    assert received[71] == received[72] == (0, 0)


@scenario()
async def test_elsewhere_they_are_not_served(broker: MemoryBroker) -> None:
    client = broker.connect()
    client.send_frame(wire_client.encode("GetTelemetrySubscriptions", 0))
    await until(lambda: client.is_closed, "the connection is closed")


async def levels(broker: MemoryBroker, version: int) -> tuple[dict[str, tuple[int, int]], ...]:
    """What is supported and what is finalized, by name, each from and to a level."""
    answer = await broker.ask("ApiVersions", version, **SOFTWARE)
    supported = {
        feature.name: (feature.min_version, feature.max_version)
        for feature in answer.supported_features
    }
    finalized = {
        feature.name: (feature.min_version_level, feature.max_version_level)
        for feature in answer.finalized_features
    }
    return supported, finalized


@pytest.mark.parametrize("version", [3, 4])
@scenario()
async def test_levels_of_features(broker: MemoryBroker, version: int) -> None:
    """Apache Kafka 4.3.1 leaves out in version 3 what has a level 0 (KAFKA-17492)."""
    supported, finalized = await levels(broker, version)
    since_0 = {"group.version": (0, 1), "transaction.version": (0, 2)}
    assert supported == {"metadata.version": (7, 30)} | (since_0 if version == 4 else {})
    assert finalized == ALWAYS | {"transaction.version": (2, 2)}


@scenario()
async def test_a_level_can_be_lowered_and_clients_notice(broker: MemoryBroker) -> None:
    """Java's client takes a level from the answer with the highest epoch that it has seen."""
    expected: dict[str, dict[str, tuple[int, int]]] = {
        "1": {"transaction.version": (1, 1)},
        "0": {},
        "2": {"transaction.version": (2, 2)},
    }
    epoch = (await broker.ask("ApiVersions", 4, **SOFTWARE)).finalized_features_epoch
    assert epoch >= 0
    for end in (broker.restart, broker.kill):
        for level, finalized in expected.items():
            await end(f"kavka.transaction.version={level}")
            assert (await levels(broker, 4))[1] == ALWAYS | finalized
            before, epoch = (
                epoch,
                (await broker.ask("ApiVersions", 4, **SOFTWARE)).finalized_features_epoch,
            )
            assert epoch > before


@pytest.mark.parametrize("version", [HIGHEST + 1, 99, 32767, -1])
@pytest.mark.parametrize("body", [b"", b"\x02a\x021\0", b"\xff" * 9])
@scenario()
async def test_a_version_that_is_not_served_is_answered_in_version_0(
    broker: MemoryBroker, version: int, body: bytes
) -> None:
    frame = wire_client.header(KEY, version, 7, flexible=version > 2) + body
    client = broker.connect()
    client.send_frame(frame)
    await until(lambda: client.frames, "an answer")
    assert client.frames == [UNSUPPORTED_VERSION]
    answer = await client.ask("ApiVersions", HIGHEST, **SOFTWARE)
    assert answer.error_code == Code.NONE, "and the client tries again on the same connection"


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "number", "is_well_formed"),
    [
        ("a", "1", True),
        ("apache-kafka.java", "4.3.1-SNAPSHOT", True),
        ("", "1", False),
        ("a", "", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a", ".1", False),
        ("a b", "1", False),
        ("a_b", "1", False),
        ("ä", "1", False),
        ("a\n", "1", False),
    ],
)
@scenario()
async def test_names_of_software(
    broker: MemoryBroker, version: int, name: str, number: str, is_well_formed: bool
) -> None:
    software = {"client_software_name": name, "client_software_version": number}
    answer = await broker.ask("ApiVersions", version, **software)
    assert answer.error_code == (Code.NONE if is_well_formed else Code.INVALID_REQUEST)
    assert bool(answer.api_keys) == is_well_formed


@pytest.mark.parametrize("version", range(HIGHEST + 1))
@scenario()
async def test_the_header_is_the_old_one_in_every_version(
    broker: MemoryBroker, version: int
) -> None:
    client = broker.connect()
    client.send_frame(wire_client.encode("ApiVersions", version, 7, **SOFTWARE))
    await until(lambda: client.frames, "an answer")
    correlation_id, code = struct.unpack_from(">ih", client.frames[0])
    assert (correlation_id, code) == (7, 0), "no tagged section in between"
