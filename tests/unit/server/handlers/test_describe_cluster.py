"""DescribeCluster: the answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace

from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario


@scenario()
async def test_the_cluster_keeps_its_id(broker: MemoryBroker) -> None:
    first = (await broker.ask("DescribeCluster", 0)).cluster_id
    await broker.restart()
    await broker.kill()
    await broker.crash()
    assert (await broker.ask("DescribeCluster", 0)).cluster_id == first


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
