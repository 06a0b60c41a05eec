"""A transactional producer in memory, request by request; its requests need not be correct."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from kafka.record import MemoryRecords

from kavka.compat_tests.raw.codec.wire_client import by_topic
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ErrorCode as Code
from support import logs
from support.logs import Producer
from support.memory_broker import Client, MemoryBroker

TIMEOUT_MS = 60_000
PLACE = ("t", 0)
NEWER = 12
"""From this version of Produce on each transaction has an epoch of its own (KIP-890)."""


class Outcome(NamedTuple):
    """The response to a batch."""

    code: Code
    offset: int = -1
    message: str | None = None
    start: int = -1


class Transactor:
    """One transactional producer. `version` is that of its Produce requests."""

    def __init__(self, broker: MemoryBroker, name: str = "tx", version: int = NEWER) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.client: Client = broker.client
        self.now = Producer(-1, -1, 0)
        self.sequences: dict[tuple[str, int], int] = {}

    @property
    def is_newer(self) -> bool:
        return self.version >= NEWER

    async def init(self, timeout_ms: int = TIMEOUT_MS) -> Transactor:
        """InitProducerId of a new instance."""
        await self.client.ask("FindCoordinator", 2, key=self.name, key_type=1)
        answer = await self.client.ask(
            "InitProducerId",
            5 if self.is_newer else 4,
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert answer.error_code == Code.NONE, answer
        self._is_now(answer)
        return self

    def _is_now(self, answer: Any) -> None:
        if answer.producer_epoch != self.now.epoch or answer.producer_id != self.now.id:
            self.sequences.clear()
        self.now = Producer(answer.producer_id, answer.producer_epoch, 0)

    async def add(self, *places: tuple[str, int]) -> list[Code]:
        """Add partitions, as older producers do before they write."""
        answer = await self.client.ask("AddPartitionsToTxn", 3, **self.adding(*places))
        return [
            Code(partition.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]

    def adding(self, *places: tuple[str, int]) -> dict[str, Any]:
        """The values of such a request."""
        topics = by_topic(dict.fromkeys(places or (PLACE,)))
        return {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.now.id,
            "v3_and_below_producer_epoch": self.now.epoch,
            "v3_and_below_topics": [
                {"name": topic, "partitions": list(partitions)}
                for topic, partitions in topics.items()
            ],
        }

    def next(self, place: tuple[str, int] = PLACE) -> int:
        """The sequence of the next record."""
        return self.sequences.get(place, 0)

    def batch(
        self, place: tuple[str, int] = PLACE, values: Sequence[bytes] = (b"v",), **changes: Any
    ) -> bytes:
        """The next batch for a partition; `changes`: of id, epoch, sequence."""
        producer = self.now._replace(sequence=self.next(place))
        data = logs.batch(values, producer=producer._replace(**changes), transactional=True)
        return bytes(data)

    async def write(
        self,
        place: tuple[str, int] = PLACE,
        values: Sequence[bytes] = (b"v",),
        **changes: Any,
    ) -> Outcome:
        """Write the next batch."""
        (outcome,) = await self.write_all({place: self.batch(place, values, **changes)})
        if outcome.code == Code.NONE and not changes:
            self.sequences[place] = self.next(place) + len(values)
        return outcome

    async def write_all(self, records: dict[tuple[str, int], bytes]) -> list[Outcome]:
        """Write these batches in one request."""
        return outcomes(await self.client.ask("Produce", self.version, **self.producing(records)))

    def begin(self, *places: tuple[str, int]) -> asyncio.Future[Any]:
        """Send the next batch of each, without waiting for the response."""
        records = {place: self.batch(place) for place in places or (PLACE,)}
        return self.client.send("Produce", self.version, **self.producing(records))

    def producing(self, records: dict[tuple[str, int], bytes], acks: int = -1) -> dict[str, Any]:
        """The values of a Produce request."""
        image = self.broker.parts.metadata.image
        return {
            "transactional_id": self.name,
            "acks": acks,
            "timeout_ms": 30_000,
            "topic_data": [
                {
                    "name": topic,
                    "topic_id": image.topics[topic].topic_id if topic in image.topics else None,
                    "partition_data": [
                        {"index": index, "records": batch} for index, batch in partitions.items()
                    ],
                }
                for topic, partitions in by_topic(records).items()
            ],
        }

    async def end(self, *, commit: bool) -> Code:
        """End the transaction; newer producers have a new epoch then."""
        answer = await self.client.ask(
            "EndTxn",
            5 if self.is_newer else 4,
            transactional_id=self.name,
            producer_id=self.now.id,
            producer_epoch=self.now.epoch,
            committed=commit,
        )
        if answer.error_code == Code.NONE and self.is_newer:
            self._is_now(answer)
        return Code(answer.error_code)


def outcomes(answer: Any) -> list[Outcome]:
    """Of an answer to Produce."""
    return [
        Outcome(
            Code(partition.error_code),
            partition.base_offset,
            getattr(partition, "error_message", None),
            partition.log_start_offset,
        )
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def values_of(answer: Any) -> list[bytes]:
    """The values of records in an answer to Fetch of one partition that are not of aborted
    transactions, as a consumer sorts them out."""
    aborted = sorted(
        (txn.first_offset, txn.producer_id) for txn in answer.aborted_transactions or ()
    )
    gone: set[int] = set()
    values: list[bytes] = []
    records = MemoryRecords(bytes(answer.records or b""))
    while (batch := records.next_batch()) is not None:
        while aborted and aborted[0][0] <= batch.base_offset:
            gone.add(aborted.pop(0)[1])
        if batch.is_control_batch:
            gone.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in gone):
            values += [record.value for record in batch]
    return values


async def committed(broker: MemoryBroker, place: tuple[str, int] = PLACE) -> list[bytes]:
    """The values that consumers read with read_committed."""
    topic, index = place
    offset, values = 0, list[bytes]()
    while True:  # an answer has records of one segment
        answer = await broker.fetch(offset, topic, index, isolation_level=1)
        assert answer.error_code == Code.NONE, answer
        following = end_of(answer)
        if following <= offset:
            return values
        values += values_of(answer)
        offset = following


def end_of(answer: Any) -> int:
    """The offset after the last batch in an answer to Fetch of one partition; -1: there is none."""
    records, end = MemoryRecords(bytes(answer.records or b"")), -1
    while (batch := records.next_batch()) is not None:
        end = batch.next_offset
    return end


async def write_markers(
    broker: MemoryBroker,
    producer: Producer,
    *places: tuple[str, int],
    commit: bool,
    coordinator_epoch: int = 0,
    version: int = 1,
    protocol: int = 0,
) -> list[Code]:
    """WriteTxnMarkers, without the coordinator of the transaction; `version` of that request."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "topics": [
            {"name": topic, "partition_indexes": list(indexes)}
            for topic, indexes in by_topic(dict.fromkeys(places)).items()
        ],
        "coordinator_epoch": coordinator_epoch,
        **({"transaction_version": protocol} if version > 1 else {}),
    }
    answer = await broker.connect().ask("WriteTxnMarkers", version, markers=[marker])
    return [
        Code(partition.error_code)
        for found in answer.markers
        for topic in found.topics
        for partition in topic.partitions
    ]


def hold(broker: MemoryBroker, topic: str = "__transaction_state", index: int = 0) -> None:
    """From now on no record of a partition is committed, as a replica lags."""
    broker.share((1, 2), topic, index)


def release(broker: MemoryBroker, topic: str = "__transaction_state", index: int = 0) -> None:
    """The replica is removed."""
    broker.unshare(topic, index)


def let_markers_fail(monkeypatch: pytest.MonkeyPatch, place: tuple[str, int] = PLACE) -> None:
    """Appending one to `place` fails with an unexpected exception."""
    append = Replica.append_marker

    def fails(replica: Replica, *args: Any) -> Any:
        assert replica.key != place, "planted"
        return append(replica, *args)

    monkeypatch.setattr(Replica, "append_marker", fails)
