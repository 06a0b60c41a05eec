"""DescribeCluster: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.describe_cluster import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
NOT_ASKED = -(2**31)
OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", VERSIONS)
@scenario("broker.rack=r1")
async def test_the_cluster(broker: MemoryBroker, version: int) -> None:
    answer = await broker.ask("DescribeCluster", version)
    assert (answer.error_code, answer.error_message) == (Code.NONE, None)
    metadata = await broker.ask("Metadata", 9, topics=[])
    assert answer.cluster_id == metadata.cluster_id
    assert answer.controller_id == 1
    assert answer.endpoint_type == 1
    (known,) = answer.brokers
    address = broker.instance.addresses["PLAINTEXT"]
    assert (known.broker_id, known.host, known.port, known.rack) == (1, *address, "r1")
    assert not known.is_fenced
    assert answer.cluster_authorized_operations == NOT_ASKED


@scenario()
async def test_the_cluster_keeps_its_id(broker: MemoryBroker) -> None:
    first = (await broker.ask("DescribeCluster", 0)).cluster_id
    await broker.restart()
    await broker.kill()
    await broker.crash()
    assert (await broker.ask("DescribeCluster", 0)).cluster_id == first


@scenario()
async def test_authorized_operations(broker: MemoryBroker) -> None:
    asked = {"include_cluster_authorized_operations": True}
    answer = await broker.ask("DescribeCluster", 2, **asked)
    assert answer.cluster_authorized_operations == OPERATIONS
    broker.parts.authorizer = Denied(Operation.DESCRIBE)
    answer = await broker.ask("DescribeCluster", 2, **asked)
    assert answer.cluster_authorized_operations == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (2, Code.MISMATCHED_ENDPOINT_TYPE),
        (0, Code.UNSUPPORTED_ENDPOINT_TYPE),
        (3, Code.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
@scenario()
async def test_there_are_no_other_endpoints(
    broker: MemoryBroker, version: int, endpoint_type: int, code: Code
) -> None:
    answer = await broker.ask("DescribeCluster", version, endpoint_type=endpoint_type)
    assert answer.error_code == code
    assert answer.error_message
    assert answer.brokers == []


@pytest.mark.parametrize("fenced", [False, True])
@scenario()
async def test_no_broker_is_fenced(broker: MemoryBroker, fenced: bool) -> None:
    answer = await broker.ask("DescribeCluster", 2, include_fenced_brokers=fenced)
    assert [(known.broker_id, known.is_fenced) for known in answer.brokers] == [(1, False)]


@scenario()
async def test_a_controller_that_cannot_be_reached_is_not_named(broker: MemoryBroker) -> None:
    cache = broker.parts.metadata
    elsewhere = replace(cache.image.brokers[1], endpoints={"OTHER": ("x", 1)})
    cache.image = replace(cache.image, brokers={1: elsewhere})
    answer = await broker.ask("DescribeCluster", 2)
    assert (answer.error_code, answer.controller_id, answer.brokers) == (Code.NONE, -1, [])


@scenario(
    "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
)
async def test_endpoints_are_those_of_the_listener_that_was_asked(broker: MemoryBroker) -> None:
    for listener, address in broker.instance.addresses.items():
        (known,) = (await broker.connect(listener).ask("DescribeCluster", 0)).brokers
        assert (known.host, known.port) == address
