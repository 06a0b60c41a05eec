"""`kavka.client` over sockets, with Kavka and with Apache Kafka."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.client.connection import Callbacks
from kavka.client.errors import ConnectFailed, Disconnected
from kavka.compat_tests.raw.codec import schemas
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.sockets import SYSTEM_SIZED, SocketNetwork
from kavka.server.runtime.tasks import LoopTasks
from kavka.wire.apis import (
    create_topics,
    describe_cluster,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from kavka.wire.building import NewRecord, build_batch
from kavka.wire.errors import ErrorCode
from kavka.wire.frame import ArenaPool
from support.broker import StartBroker
from support.process import BrokerProcess

SETTINGS = ClientSettings(client_id="test", software_version="1")
TOPIC = "asked"
BATCH_RECORDS = 3
TIMEOUT_S = 60.0


def request(name: str, **values: Any) -> Any:
    return schemas.as_namespace(schemas.schema(f"{name}Request"), values)


@asynccontextmanager
async def client_of(broker: BrokerProcess) -> AsyncIterator[BrokerClient]:
    loop = asyncio.get_running_loop()
    sizes = {"receive_bytes": SYSTEM_SIZED, "send_bytes": SYSTEM_SIZED}
    seams = Seams(
        SocketNetwork(loop, backlog=1, **sizes),
        SystemClock(),
        LoopTasks(loop),
        random.Random(1),
        ArenaPool(),
    )
    host, _, port = broker.bootstrap.rpartition(":")
    client = BrokerClient(host, int(port), SETTINGS, seams)
    try:
        yield client
    finally:
        client.close()


def with_client(broker: BrokerProcess, test: Callable[[BrokerClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with client_of(broker) as client, asyncio.timeout(TIMEOUT_S):
            await test(client)

    asyncio.run(run())


async def create_topic(client: BrokerClient) -> None:
    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    question = request("CreateTopics", topics=[topic], timeout_ms=30_000)
    (created,) = (await client.ask(create_topics.API, question)).topics
    assert created.error_code == ErrorCode.NONE, created.error_message
    while await end_offset(client) is None:  # Apache Kafka's partition has its leader soon
        continue


async def end_offset(client: BrokerClient) -> int | None:
    """Of the partition; None as long as it has no leader."""
    partition = {"partition_index": 0, "timestamp": list_offsets.LATEST}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    question = request("ListOffsets", replica_id=-1, topics=topics)
    ((found,),) = (
        topic.partitions for topic in (await client.ask(list_offsets.API, question)).topics
    )
    return found.offset if found.error_code == ErrorCode.NONE else None


async def fetch_batch(client: BrokerClient, offset: int) -> bytes:
    """The records of a partition from an offset on, as `send` gives them."""
    connection = await client.connection()
    version = min(client.version_of(fetch.API), 12)  # the last one that has topics by name
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    question = request(
        "Fetch",
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": TOPIC, "partitions": [partition]}],
    )
    records: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def on_response(message: Any) -> None:
        ((read,),) = (topic.partitions for topic in message.responses)
        assert read.error_code == ErrorCode.NONE
        records.set_result(bytes(read.records))

    callbacks = Callbacks(on_response, records.set_exception)
    connection.send(fetch.API, version, question, callbacks, timeout_s=TIMEOUT_S)
    return await records


@pytest.fixture(params=["kavka", "apache"])
def either_broker(request: pytest.FixtureRequest) -> BrokerProcess:
    found: BrokerProcess = request.getfixturevalue(
        "oracle" if request.param == "apache" else "broker"
    )
    return found


def test_what_is_produced_is_fetched(either_broker: BrokerProcess) -> None:
    """Many batches in flight at once; each is read back as it was written but for its offset."""
    batches = [
        bytes(
            build_batch([NewRecord(1_700_000_000_000, None, b"%02d" % number * 50)] * BATCH_RECORDS)
        )
        for number in range(20)
    ]

    async def test(client: BrokerClient) -> None:
        await create_topic(client)
        connection = await client.connection()
        version = min(client.version_of(produce.API), 12)
        responses = [
            connection.ask(
                produce.API,
                version,
                request(
                    "Produce",
                    acks=-1,
                    timeout_ms=30_000,
                    topic_data=[
                        {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
                    ],
                ),
                timeout_s=30.0,
            )
            for batch in batches
        ]
        answers = await asyncio.gather(*responses)
        offsets = [response.responses[0].partition_responses[0].base_offset for response in answers]
        assert offsets == list(range(0, 20 * BATCH_RECORDS, BATCH_RECORDS))
        data = await fetch_batch(client, 0)
        size = len(batches[0])
        found = [data[at : at + size] for at in range(0, len(data), size)]
        # Base offset (8 bytes) and leader epoch (4, after the length) are the broker's.
        assert [batch[16:] for batch in found] == [batch[16:] for batch in batches]
        topics = [{"name": TOPIC}]
        described = await client.ask(metadata.API, request("Metadata", topics=topics))
        assert [(topic.name, len(topic.partitions)) for topic in described.topics] == [(TOPIC, 1)]

    with_client(either_broker, test)


def test_it_finds_a_broker_that_comes_back(start_broker: StartBroker) -> None:
    """What is in flight when it is killed fails; then it is refused; then it answers again."""
    broker = start_broker()

    async def test(client: BrokerClient) -> None:
        await create_topic(client)
        waiting = asyncio.ensure_future(fetch_batch(client, 0))
        await client.ask(describe_cluster.API, request("DescribeCluster"))
        await asyncio.to_thread(broker.kill)
        with pytest.raises(Disconnected, match="closed the connection"):
            await waiting
        with pytest.raises(ConnectFailed) as raised:
            await client.ask(describe_cluster.API, request("DescribeCluster"))
        assert raised.value.refused
        await asyncio.to_thread(broker.start)
        described = await client.ask(describe_cluster.API, request("DescribeCluster"))
        assert len(described.brokers) == 1

    with_client(broker, test)
