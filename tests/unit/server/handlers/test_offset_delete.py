"""OffsetDelete. See also the differential cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.wire_client import by_topic
from kavka.groupcoord import offsets
from kavka.server.handlers import offset_delete
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import Place, commit, fetch

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
OFFSETS = "__consumer_offsets"


async def ask(broker: MemoryBroker, places: Sequence[Place], group_id: str = "g") -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in by_topic(dict.fromkeys(places)).items()
    ]
    return await broker.ask("OffsetDelete", 0, group_id=group_id, topics=topics)


async def delete(broker: MemoryBroker, places: Sequence[Place]) -> dict[Place, int]:
    """The code of each place."""
    answer = await ask(broker, places)
    assert answer.error_code == Code.NONE
    return {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("step", [1, 4, 5])
@scenario(topics={"a": 9, "b": 2})
async def test_many_go_in_steps(
    broker: MemoryBroker, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_delete, "OFFSETS_PER_STEP", step)
    monkeypatch.setattr(offsets, "OFFSETS_PER_STEP", step)
    await make_topic(broker)
    places = [*(("a", index) for index in range(9)), ("b", 0), ("b", 1)]
    await commit(broker, dict.fromkeys(places, 1))
    log = broker.replica(OFFSETS, broker.parts.groups.partition_of("g")).log
    before = log.end_offset
    assert await delete(broker, places[1:]) == dict.fromkeys(places[1:], 0)
    assert await fetch(broker) == {A0: (1, 0)}
    found = log.read(before, 1 << 20, upto=log.end_offset, at_least_one=True)
    assert found is not None
    data = memoryview(found.file.pread(found.length, found.position))
    assert read_header(data).record_count == len(places) - 1, "all in one batch"


@scenario("message.max.bytes=1000", topics={"a": 80})
async def test_what_does_not_fit_into_one_batch_stays(broker: MemoryBroker) -> None:
    """With the code that Apache Kafka gives: see tests/broker/test_big_commits.py."""
    await make_topic(broker)
    places = [("a", index) for index in range(80)]
    for begin in range(0, 80, 5):
        await commit(broker, dict.fromkeys(places[begin : begin + 5], 1))
    assert (await ask(broker, places)).error_code == Code.UNKNOWN_SERVER_ERROR
    assert len(await fetch(broker)) == 80
