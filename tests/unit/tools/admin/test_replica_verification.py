"""With --once it ends, whatever becomes of the replicas meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build, patch
from kavka.tools.admin.options import parse
from kavka.tools.admin.replica_verification import PAUSE_S, REFUSED_MS_MAX, TOOL
from kavka.wire.apis import fetch, list_offsets, metadata
from kavka.wire.errors import ErrorCode

TOPIC = "orders"
OLD, NEW = UUID(int=1), UUID(int=2)
RECORDS = 4


class Cluster:
    """Three brokers and a topic, as far as the tool asks: it stands in for its client and clock."""

    def __init__(self) -> None:
        self.ms = 0
        self.topic_id: UUID | None = OLD
        self.replicas: Mapping[int, list[int]] = {0: [1, 2], 1: [1, 2]}
        self.refused: dict[tuple[int, int], ErrorCode] = {}
        """By partition and broker."""

        self.at_record: dict[int, Callable[[], None]] = {}
        """What happens once partition 0 was read from an offset."""

        self.asked_bytes: set[int] = set()
        """The most that fetches have asked for of a partition."""

        self.seams = self.clock = self.tasks = self
        self.brokers = [
            metadata.BrokerResponse(broker_id, "h", broker_id) for broker_id in (1, 2, 3)
        ]

    def now_ms(self) -> int:
        return self.ms

    async def sleep(self, delay_s: float) -> None:
        self.ms += round(delay_s * 1000)

    async def topics(self) -> list[metadata.TopicResponse]:
        return list((await self.topics_named([TOPIC])).values())

    async def topics_named(self, names: Iterable[str]) -> dict[str, metadata.TopicResponse]:
        assert {*names} == {TOPIC}
        if self.topic_id is None:
            gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return {TOPIC: metadata.TopicResponse(TOPIC, error_code=gone)}
        partitions = [
            metadata.PartitionResponse(number, leader_id=some[0], replica_nodes=some)
            for number, some in self.replicas.items()
        ]
        return {TOPIC: metadata.TopicResponse(TOPIC, self.topic_id, partitions=partitions)}

    async def ask_broker(self, broker: int, api: Any, request: Any) -> Any:
        (topic,) = request.topics
        if api is list_offsets.API:
            answers = [self._offset(partition) for partition in topic.partitions]
            return list_offsets.ListOffsetsResponse([list_offsets.TopicResponse(TOPIC, answers)])
        read = [self._read(broker, topic.topic_id, partition) for partition in topic.partitions]
        return fetch.FetchResponse([fetch.TopicResponse("", topic.topic_id, read)])

    def _offset(self, requested: Any) -> list_offsets.PartitionResponse:
        offset = 0 if requested.timestamp == list_offsets.EARLIEST else RECORDS
        return list_offsets.PartitionResponse(requested.partition_index, offset=offset)

    def _read(self, broker: int, topic_id: UUID, requested: Any) -> fetch.PartitionResponse:
        number, offset = requested.partition, requested.fetch_offset
        self.asked_bytes.add(requested.partition_max_bytes)
        if number == 0 and broker == 1:
            self.at_record.pop(offset, lambda: None)()
        error = self.refused.get((number, broker), ErrorCode.NONE)
        if topic_id != self.topic_id:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif broker not in self.replicas[number]:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error:
            return fetch.PartitionResponse(number, error)
        batch = patch(build([Written()]), base_offset=offset)
        return fetch.PartitionResponse(number, 0, RECORDS, RECORDS, 0, memoryview(batch))


def verified(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and the events that are no reports."""
    given = parse(["--broker-list", "h:1", "--once", "--output", "json", *options], TOOL.options)

    async def run() -> int:
        return await TOOL.run(cast(Any, cluster), given)

    exit_code = asyncio.run(run())
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "report"
    return exit_code, [event for event in events if event["event"] not in ("started", "report")]


def lost(partition: int, offset: int, why: str) -> dict[str, Any]:
    return {
        "event": "lost",
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "why": why,
    }


def test_all_is_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(Cluster(), capsys) == (0, [])


@pytest.mark.parametrize(
    ("options", "size"), [((), 1 << 20), (("--fetch-size", "100"), 100), (("--fetch-size", "0"), 0)]
)
def test_fetches_ask_for_as_much_as_was_said(
    options: Sequence[str], size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    assert verified(cluster, capsys, *options) == (0, [])
    assert cluster.asked_bytes == {size}


@pytest.mark.parametrize("topic_id", [None, NEW], ids=["deleted", "created-again"])
def test_a_topic_that_is_gone_is_named(
    topic_id: UUID | None, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.at_record[2] = lambda: setattr(cluster, "topic_id", topic_id)
    exit_code, events = verified(cluster, capsys)
    assert exit_code == 1
    for event in events:
        del event["timeMs"]
    assert events == [lost(0, 2, "it is deleted"), lost(1, 2, "it is deleted")]


def test_replicas_that_move_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.at_record[2] = lambda: setattr(cluster, "replicas", {0: [1, 3], 1: [1, 2]})
    exit_code, (event,) = verified(cluster, capsys)
    assert exit_code == 0
    assert (event["event"], event["partition"], event["brokers"]) == ("moved", 0, [1, 3])


def test_what_is_moved_to_brokers_that_are_not_live_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster()
    cluster.at_record[2] = lambda: setattr(cluster, "replicas", {0: [8, 9], 1: [1, 2]})
    exit_code, (event,) = verified(cluster, capsys)
    assert (exit_code, event["event"], event["why"]) == (1, "lost", "none of its brokers is live")


def test_a_replica_that_can_t_be_read_for_long_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.refused[1, 2] = ErrorCode.KAFKA_STORAGE_ERROR
    exit_code, (event,) = verified(cluster, capsys)
    assert exit_code == 1
    assert event["why"] == "broker 2 answers KAFKA_STORAGE_ERROR"
    assert REFUSED_MS_MAX < cluster.ms < REFUSED_MS_MAX + 3000 * PAUSE_S


def test_a_replica_that_is_back_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.refused[0, 2] = ErrorCode.REPLICA_NOT_AVAILABLE
    sleep = cluster.sleep

    async def until_back(delay_s: float) -> None:
        await sleep(delay_s)
        if cluster.ms > REFUSED_MS_MAX / 2:
            cluster.refused.clear()

    cluster.sleep = until_back  # type: ignore[method-assign]
    assert verified(cluster, capsys) == (0, [])
