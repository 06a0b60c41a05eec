"""Offsets in the tree; the differential test compares them with those of Apache Kafka 3.9."""

from __future__ import annotations

import asyncio

import pytest

from kavka.server.coordinators.zookeeper_offsets import ZooKeeperOffsets
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import SetData
from support.memory_broker import MemoryBroker, scenario


def offsets_of(broker: MemoryBroker) -> ZooKeeperOffsets:
    return broker.parts.zookeeper_offsets


@scenario()
async def test_offsets_are_stored_by_group_topic_and_partition(broker: MemoryBroker) -> None:
    offsets = offsets_of(broker)
    assert await offsets.get("g", "t", 0) is None
    for offset in (5, 0, -(2**63), 2**63 - 1):
        await offsets.put("g", "t", 0, offset)
        assert await offsets.get("g", "t", 0) == offset
    assert await offsets.get("g", "t", 1) is None
    assert await offsets.get("h", "t", 0) is None


@scenario()
async def test_the_path_is_that_of_apache_kafka(broker: MemoryBroker) -> None:
    await offsets_of(broker).put("g", "t", 3, 42)
    node = await broker.parts.coordination.get("/consumers/g/offsets/t/3")
    assert node.data == b"42"


@scenario()
async def test_two_concurrent_writes(broker: MemoryBroker) -> None:
    offsets = offsets_of(broker)
    await asyncio.gather(*(offsets.put("g", "t", 0, offset) for offset in (1, 2)))
    assert await offsets.get("g", "t", 0) in (1, 2)


@pytest.mark.parametrize("group_id", ["", ".", "..", "a//b", "\0"])
@scenario()
async def test_group_ids_that_can_not_be_nodes(broker: MemoryBroker, group_id: str) -> None:
    offsets = offsets_of(broker)
    for ask in (offsets.get(group_id, "t", 0), offsets.put(group_id, "t", 0, 1)):
        with pytest.raises(ApiError) as failure:
            await ask
        assert failure.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


@scenario()
async def test_data_that_is_no_offset(broker: MemoryBroker) -> None:
    offsets = offsets_of(broker)
    await offsets.put("g", "t", 0, 1)
    for data in (b"", b"x", b"1.5"):
        await broker.parts.coordination.multi([SetData("/consumers/g/offsets/t/0", data)])
        with pytest.raises(ApiError):
            await offsets.get("g", "t", 0)
