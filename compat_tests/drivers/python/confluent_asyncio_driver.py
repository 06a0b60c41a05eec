"""The driver of confluent-kafka's asyncio classes (see ../README.md)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.aio import AIOConsumer, AIOProducer
from confluent_parts import (
    CLOSE_S,
    CONSUMER_CAN,
    POLL_RECORDS,
    PRODUCER_CAN,
    Kept,
    checked,
    committed_as_json,
    consumer_settings,
    error_as_json,
    numbers_of,
    offsets_of,
    partition_of,
    partitions_as_json,
    partitions_of,
    placed_as_json,
    producer_settings,
    starts_of,
    times_as_json,
    times_of,
    to_produce,
)
from serve import Arguments, serve_async

CAN = [*PRODUCER_CAN, *CONSUMER_CAN]
"""Its producer refuses headers and timestamps; it has no admin client."""


class Producing:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = None

    async def producer(self, arguments: Arguments) -> dict[str, Any]:
        await self.close()
        producer = AIOProducer(producer_settings(self._bootstrap, arguments))
        if "transactional_id" in arguments:
            await producer.init_transactions()
        self._producer = producer
        return {}

    async def send(self, arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        sent = [await self._sent(topic, record) for record in arguments["records"]]
        try:
            await self._producer.flush()
        except Exception as failure:  # of all that is still to be delivered
            sent = [delivery if is_done(delivery) else failure for delivery in sent]
        return {"placed": [placed_as_json(await outcome_of(delivery)) for delivery in sent]}

    async def _sent(self, topic: str, record: Arguments) -> Any:
        try:
            return await self._producer.produce(topic, **to_produce(record))
        except Exception as failure:  # of this record only
            return failure

    async def begin(self, _: Arguments) -> dict[str, Any]:
        await self._producer.begin_transaction()
        return {}

    async def commit_transaction(self, _: Arguments) -> dict[str, Any]:
        await self._producer.commit_transaction()
        return {}

    async def abort_transaction(self, _: Arguments) -> dict[str, Any]:
        await self._producer.abort_transaction()
        return {}

    async def send_offsets(self, arguments: Arguments, metadata: Any) -> dict[str, Any]:
        await self._producer.send_offsets_to_transaction(offsets_of(arguments), metadata)
        return {}

    async def partitions(self, topic: str) -> list[int] | None:
        if self._producer is None:
            return None
        return numbers_of(await self._producer.list_topics(topic), topic)

    async def close_producer(self, _: Arguments) -> dict[str, Any]:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.close()
        return {}

    async def close(self) -> None:
        """Without waiting for long."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            if await producer.flush(CLOSE_S):
                await producer.purge()
            await producer.close()


def is_done(sent: Any) -> bool:
    return isinstance(sent, Exception) or sent.done()


async def outcome_of(sent: Any) -> Any:
    if isinstance(sent, Exception):
        return sent
    try:
        return await sent
    except Exception as failure:  # of this record only
        return failure


class Consuming:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._group: str | None = None
        self._consumer: Any = None
        self._kept = Kept()

    async def consumer(self, arguments: Arguments) -> dict[str, Any]:
        await self.close()
        self._consumer = AIOConsumer(consumer_settings(self._bootstrap, arguments))
        self._group = arguments.get("group")
        return {}

    async def subscribe(self, arguments: Arguments) -> dict[str, Any]:
        topics = arguments.get("topics") or [f"^{arguments['pattern']}$"]
        await self._consumer.subscribe(topics)
        return {}

    async def assign(self, arguments: Arguments) -> dict[str, Any]:
        self._kept = Kept()
        await self._consumer.assign(starts_of(arguments))
        return {}

    async def poll(self, arguments: Arguments) -> dict[str, Any]:
        count, until = arguments["records"], time.monotonic() + arguments["timeout_ms"] / 1000
        while (missing := self._kept.wants(count)) and (left_s := until - time.monotonic()) > 0:
            self._kept.messages += await self._consumer.consume(missing, left_s)
        return {"records": self._kept.take(count)}

    async def assignment(self, arguments: Arguments) -> dict[str, Any]:
        until = time.monotonic() + arguments["timeout_ms"] / 1000
        while (left_s := until - time.monotonic()) > 0:
            self._kept.messages += await self._consumer.consume(POLL_RECORDS, left_s)
        return {"partitions": partitions_as_json(await self._consumer.assignment())}

    async def seek(self, arguments: Arguments) -> dict[str, Any]:
        self._kept.drop(partition_of(arguments))
        await self._consumer.seek(
            TopicPartition(arguments["topic"], arguments["partition"], arguments["offset"])
        )
        return {}

    async def position(self, arguments: Arguments) -> dict[str, Any]:
        (found,) = checked(await self._consumer.position([partition_of(arguments)]))
        return {"offset": found.offset}

    async def pause(self, arguments: Arguments) -> dict[str, Any]:
        await self._consumer.pause(partitions_of(arguments))
        return {}

    async def resume(self, arguments: Arguments) -> dict[str, Any]:
        await self._consumer.resume(partitions_of(arguments))
        return {}

    async def commit(self, arguments: Arguments) -> dict[str, Any]:
        offsets = {"offsets": offsets_of(arguments)} if "offsets" in arguments else {}
        checked(await self._consumer.commit(asynchronous=False, **offsets))
        return {}

    async def committed(self, arguments: Arguments) -> dict[str, Any]:
        found = await self._consumer.committed(partitions_of(arguments))
        return {"offsets": committed_as_json(found)}

    async def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        found = await self._consumer.offsets_for_times(times_of(arguments))
        return {"offsets": times_as_json(found)}

    async def ends(self, arguments: Arguments) -> dict[str, Any]:
        partitions = partitions_of(arguments)
        found = [await self._consumer.get_watermark_offsets(partition) for partition in partitions]
        return {"ends": [{"earliest": first, "latest": end} for first, end in found]}

    async def partitions(self, topic: str) -> list[int]:
        return numbers_of(await self._consumer.list_topics(topic), topic)

    async def metadata_of(self, group: str) -> Any:
        """The metadata of a group, which only its consumers have."""
        if group == self._group:
            return await self._consumer.consumer_group_metadata()
        async with AIOConsumer(consumer_settings(self._bootstrap, {"group": group})) as other:
            return await other.consumer_group_metadata()

    async def close_consumer(self, _: Arguments) -> dict[str, Any]:
        await self.close()
        return {}

    async def close(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            self._group, self._kept = None, Kept()
            await consumer.close()


async def main() -> None:
    (bootstrap,) = sys.argv[1:]
    producing, consuming = Producing(bootstrap), Consuming(bootstrap)

    async def hello(_: Arguments) -> dict[str, Any]:
        version = confluent_kafka.__version__
        return {"client": "confluent-kafka (asyncio)", "version": version, "can": CAN}

    async def send_offsets(arguments: Arguments) -> dict[str, Any]:
        metadata = await consuming.metadata_of(arguments["group"])
        return await producing.send_offsets(arguments, metadata)

    async def partitions(arguments: Arguments) -> dict[str, Any]:
        topic = arguments["topic"]
        found = await producing.partitions(topic)
        return {"partitions": found or await consuming.partitions(topic)}

    async def close() -> None:
        await producing.close()
        await consuming.close()

    names = {
        producing: (
            *("producer", "send", "begin", "commit_transaction", "abort_transaction"),
            "close_producer",
        ),
        consuming: (
            *("consumer", "subscribe", "assign", "poll", "assignment", "seek"),
            *("position", "pause", "resume", "commit", "committed", "offsets_for_times", "ends"),
            "close_consumer",
        ),
    }
    requests: dict[str, Callable[[Arguments], Awaitable[Any]]] = {
        name: getattr(part, name) for part, of_part in names.items() for name in of_part
    }
    requests |= {"hello": hello, "send_offsets": send_offsets, "partitions": partitions}
    await serve_async(requests, error_as_json, close)


if __name__ == "__main__":
    asyncio.run(main())
