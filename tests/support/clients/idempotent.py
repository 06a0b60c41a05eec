"""Idempotent producers that write on and on, through any death of their broker."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Coroutine, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

OUTSTANDING_RECORDS_MAX = 2_000
PADDING = b"." * 200
UNKNOWN_OFFSET = -1
"""Of a record that is acknowledged, but its producer does not know where."""

GIVE_UP_S = 120.0
"""How long a producer tries to deliver a record; far longer than a broker's restart."""
BACKOFF_MS = 50
BACKOFF_MAX_MS = 200


class History:
    """What became of the records: acknowledged, by place, and failures."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.by_writer: Counter[bytes] = Counter()
        """How many are acknowledged, by the writer's name."""
        self.failures: list[str] = []

    def acknowledge(self, value: bytes, partition: int, offset: int) -> None:
        """A record lies at a place; two at one place, or an unknown place, are a failure."""
        if offset == UNKNOWN_OFFSET:
            self.failures.append(f"{value[:40]!r} is acknowledged without its offset")
        if (partition, offset) in self.acknowledged:
            self.failures.append(f"{partition}@{offset} acknowledged twice, then for {value!r}")
        self.acknowledged[partition, offset] = value
        self.by_writer[value.partition(b"/")[0]] += 1

    def holds(self, count: int) -> bool:
        """Whether that many are acknowledged."""
        return len(self.acknowledged) >= count

    def fail(self, value: bytes, error: object) -> None:
        """A producer has given a record up."""
        self.failures.append(f"{value[:40]!r}: {error}")


class Writer(ABC, threading.Thread):
    """Writes `name/partition/number/...` to partitions in turn, numbered upwards in each.

    The key is one of `keys`, in turn, if there are any: `name/0` and so on. The name is the
    class' label unless another is given.
    """

    label: str
    settings: Mapping[str, Any] = MappingProxyType({})
    """Of the producer, where a kind of writer has others than usual."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        history: History,
        *,
        keys: int = 0,
        name: str = "",
    ) -> None:
        super().__init__(name=name or self.label, daemon=True)
        numbered = [f"{self.name}/{key}".encode() for key in range(keys)]
        self._keys: list[bytes] | list[None] = numbered or [None]
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.history = history
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Write no more."""
        self._stopping.set()

    def finish(self) -> None:
        """Write no more; returns when all that was written is acknowledged or failed."""
        self.stop()
        self.join(GIVE_UP_S)
        assert not self.is_alive(), f"{self.name} does not end"

    def run(self) -> None:
        try:
            for number in count():
                for partition in range(self.partitions):
                    if self._stopping.is_set():
                        return
                    value = b"%s/%d/%d/" % (self.name.encode(), partition, number) + PADDING
                    self.send(partition, self._keys[number % len(self._keys)], value)
        except Exception as error:
            self.history.failures.append(f"{self.name} ended: {error!r}")
        finally:
            self.flush()

    @abstractmethod
    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        """Send one record; blocks while too many are unanswered."""

    @abstractmethod
    def flush(self) -> None:
        """Wait for what is under way, and close."""


class ConfluentWriter(Writer):
    """librdkafka's idempotent producer."""

    label = "confluent-kafka"

    def __init__(self, bootstrap: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(bootstrap, *args, **kwargs)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "batch.size": 16_384,
                "linger.ms": 1,
                "message.timeout.ms": int(GIVE_UP_S * 1000),
                "reconnect.backoff.ms": BACKOFF_MS,
                "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
                "retry.backoff.ms": BACKOFF_MS,
                "log_level": 0,  # that its broker goes away is the test
                **self.settings,
            }
        )

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        while len(self._producer) >= OUTSTANDING_RECORDS_MAX:
            self._producer.poll(0.1)
            if self._stopping.is_set():
                return
        self._producer.produce(
            self.topic, value, key, partition=partition, on_delivery=self._delivered
        )
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        if error is not None:
            self.history.fail(value, error)
            return
        # None if the response was lost, and that of a later batch says that this one was written
        offset = message.offset()
        self.history.acknowledge(
            value, message.partition(), UNKNOWN_OFFSET if offset is None else offset
        )

    def flush(self) -> None:
        self._producer.flush(GIVE_UP_S)


class KafkaPythonWriter(Writer):
    """kafka-python's idempotent producer."""

    label = "kafka-python"

    def __init__(self, bootstrap: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(bootstrap, *args, **kwargs)
        self._room = threading.Semaphore(OUTSTANDING_RECORDS_MAX)
        usual = {
            "enable_idempotence": True,
            "linger_ms": 1,
            "delivery_timeout_ms": int(GIVE_UP_S * 1000),
            "reconnect_backoff_ms": BACKOFF_MS,
            "reconnect_backoff_max_ms": BACKOFF_MAX_MS,
            "retry_backoff_ms": BACKOFF_MS,
        }
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, **{**usual, **self.settings})

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        while not self._room.acquire(timeout=0.1):
            if self._stopping.is_set():
                return
        future = self._producer.send(self.topic, value, key, partition=partition)
        future.add_callback(self._delivered, value)
        future.add_errback(self._failed, value)

    def _delivered(self, value: bytes, metadata: Any) -> None:
        self._room.release()
        self.history.acknowledge(value, metadata.partition, metadata.offset)

    def _failed(self, value: bytes, error: BaseException) -> None:
        self._room.release()
        self.history.fail(value, error)

    def flush(self) -> None:
        self._producer.close(timeout=GIVE_UP_S)


class AiokafkaWriter(Writer):
    """aiokafka's idempotent producer, with a loop of its own in another thread."""

    label = "aiokafka"

    def __init__(self, bootstrap: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(bootstrap, *args, **kwargs)
        self._room = threading.Semaphore(OUTSTANDING_RECORDS_MAX)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._open())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(GIVE_UP_S)

    async def _open(self) -> None:
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            linger_ms=1,
            request_timeout_ms=int(GIVE_UP_S * 1000),
            retry_backoff_ms=BACKOFF_MS,
            **self.settings,
        )
        await self._producer.start()
        self._waiting: asyncio.Queue[tuple[int, bytes | None, bytes]] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send_all())

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        while not self._room.acquire(timeout=0.1):
            if self._stopping.is_set():
                return
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, (partition, key, value))

    async def _send_all(self) -> None:
        """In order: of two sends that wait for room, either may be first."""
        while True:
            partition, key, value = await self._waiting.get()
            try:
                sent = await self._producer.send(self.topic, value, key, partition=partition)
            except Exception as error:
                self._failed(value, error)
            else:
                sent.add_done_callback(partial(self._ended, value))
            self._waiting.task_done()

    def _ended(self, value: bytes, sent: asyncio.Future[Any]) -> None:
        error = sent.exception()
        if error is not None:
            self._failed(value, error)
            return
        self._room.release()
        metadata = sent.result()
        self.history.acknowledge(value, metadata.partition, metadata.offset)

    def _failed(self, value: bytes, error: BaseException) -> None:
        self._room.release()
        self.history.fail(value, error)

    async def _close(self) -> None:
        await self._waiting.join()
        await self._producer.stop()
        self._sending.cancel()

    def flush(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GIVE_UP_S)
        self._loop.close()
