"""DescribeQuorum: the form is Apache Kafka 4.3.1's, what it says is true of Kavka."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.wire.apis.describe_quorum import API
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario

VERSIONS = range(API.lowest, API.highest + 1)
METADATA = "__cluster_metadata"


def asking(*topics: tuple[str, list[int]]) -> dict[str, Any]:
    return {
        "topics": [
            {"topic_name": name, "partitions": [{"partition_index": index} for index in indices]}
            for name, indices in topics
        ]
    }


async def described(broker: MemoryBroker, version: int = 2) -> Any:
    """What is said of the one partition."""
    answer = await broker.ask("DescribeQuorum", version, **asking((METADATA, [0])))
    assert answer.error_code == Code.NONE
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA, 0)
    assert partition.error_code == Code.NONE
    return partition


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_quorum_of_one(broker: MemoryBroker, version: int) -> None:
    partition = await described(broker, version)
    assert partition.leader_id == 1
    assert partition.leader_epoch == broker.parts.controller.epoch > 0
    assert list(partition.observers) == []
    (voter,) = partition.current_voters
    assert voter.replica_id == 1
    assert voter.replica_directory_id in (None, UUID(int=0))
    assert voter.log_end_offset == partition.high_watermark > 0
    now_ms = broker.clock.now_ms() if version > 0 else -1
    assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (now_ms, now_ms)


@scenario()
async def test_the_offset_grows_with_the_metadata_and_outlives_the_broker(
    broker: MemoryBroker,
) -> None:
    before = (await described(broker)).high_watermark
    await broker.create("t")
    after = (await described(broker)).high_watermark
    assert after > before
    for end in (broker.restart, broker.kill, broker.crash):
        epoch = (await described(broker)).leader_epoch
        await end()
        partition = await described(broker)
        assert partition.leader_epoch > epoch
        assert partition.high_watermark > after
        after = partition.high_watermark
