"""A transactional producer in memory, one request at a time, which may also do what is not right."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from kavka.wire.errors import ErrorCode as Code
from support import logs
from support.logs import Producer
from support.memory_broker import Client, MemoryBroker, until
from support.wire_client import by_topic

TIMEOUT_MS = 60_000
PLACE = ("t", 0)
NEWER = 12
"""From this version of Produce on each transaction has an epoch of its own (KIP-890)."""


class Outcome(NamedTuple):
    """What became of a batch."""

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
        """Begin, or begin anew."""
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
        topics = by_topic(dict.fromkeys(places or (PLACE,)))
        answer = await self.client.ask(
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.now.id,
            v3_and_below_producer_epoch=self.now.epoch,
            v3_and_below_topics=[
                {"name": topic, "partitions": list(partitions)}
                for topic, partitions in topics.items()
            ],
        )
        return [
            Code(one.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    def batch(
        self, place: tuple[str, int] = PLACE, values: Sequence[bytes] = (b"v",), **changes: Any
    ) -> bytes:
        """The next batch for a partition; `changes`: of id, epoch, sequence."""
        producer = self.now._replace(sequence=self.sequences.get(place, 0))
        data = logs.batch(values, producer=producer._replace(**changes), transactional=True)
        return bytes(data)

    async def write(
        self,
        place: tuple[str, int] = PLACE,
        values: Sequence[bytes] = (b"v",),
        *,
        acks: int = -1,
        **changes: Any,
    ) -> Outcome:
        """Write the next batch."""
        (outcome,) = await self.write_all({place: self.batch(place, values, **changes)}, acks)
        if outcome.code == Code.NONE and not changes:
            self.sequences[place] = self.sequences.get(place, 0) + len(values)
        return outcome

    async def write_all(
        self, records: dict[tuple[str, int], bytes], acks: int = -1
    ) -> list[Outcome]:
        """Write these batches in one request."""
        answer = await self.client.ask("Produce", self.version, **self.producing(records, acks))
        return [
            Outcome(
                Code(one.error_code),
                one.base_offset,
                getattr(one, "error_message", None),
                one.log_start_offset,
            )
            for topic in answer.responses
            for one in topic.partition_responses
        ]

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


async def committed(broker: MemoryBroker, place: tuple[str, int] = PLACE) -> list[bytes]:
    """What readers of committed records get."""
    answer = await broker.fetch(0, *place, isolation_level=1)
    assert answer.error_code == Code.NONE, answer
    aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
    return logs.committed_values(bytes(answer.records or b""), aborted)


def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Ask, and go on before there is an answer."""
    return asyncio.get_running_loop().create_task(coroutine)


__all__ = ["PLACE", "Code", "Outcome", "Transactor", "committed", "started", "until"]
