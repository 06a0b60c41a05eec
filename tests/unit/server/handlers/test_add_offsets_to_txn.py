"""AddOffsetsToTxn: the partition of the group's offsets belongs to the transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.add_offsets_to_txn import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import ID, Producer, begun, described, find

VERSIONS = range(API.lowest, API.highest + 1)
GROUP = "hello world"
PARTITION = 1794106052 % 50
"""Java's hash of the group's id, modulo the number of partitions."""


async def add(
    broker: MemoryBroker,
    version: int,
    producer: Producer,
    transactional_id: str = ID,
    group: str = GROUP,
) -> int:
    answer = await broker.ask(
        "AddOffsetsToTxn",
        version,
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    code: int = answer.error_code
    return code


async def added(broker: MemoryBroker) -> list[tuple[str, list[int]]]:
    found: Any = await described(broker)
    return [(one.topic, list(one.partitions)) for one in found.topics]


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_the_group_s_partition_is_added(broker: MemoryBroker, version: int) -> None:
    await broker.ask("FindCoordinator", 6, key_type=0, coordinator_keys=[GROUP])
    await find(broker)
    producer = await begun(broker)
    for _ in range(2):
        assert await add(broker, version, producer) == Code.NONE
    assert await added(broker) == [("__consumer_offsets", [PARTITION])]
    assert (await described(broker)).transaction_state == "Ongoing"


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_what_is_refused(broker: MemoryBroker, version: int) -> None:
    assert await add(broker, version, Producer(0, 0)) == Code.NOT_COORDINATOR
    await find(broker)
    assert await add(broker, version, Producer(0, 0)) == Code.INVALID_PRODUCER_ID_MAPPING
    assert await add(broker, version, Producer(0, 0), "") == Code.INVALID_REQUEST
    producer = await begun(broker)
    fenced = Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH
    assert await add(broker, version, Producer(producer.id, 1)) == fenced
    assert await added(broker) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ((Operation.WRITE, ID), Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ((Operation.READ, GROUP), Code.GROUP_AUTHORIZATION_FAILED),
    ],
)
@scenario()
async def test_who_may_not(
    broker: MemoryBroker, version: int, denied: tuple[Operation, str], code: Code
) -> None:
    await find(broker)
    producer = await begun(broker)
    broker.parts.authorizer = Denied(denied)
    assert await add(broker, version, producer) == code
    assert await added(broker) == []
