"""A broker on a thread of its own: `with kavka.testing.Broker() as broker:`."""

from __future__ import annotations

import atexit
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kavka.testing.async_broker import NOT_RUNNING, NOTHING, AsyncBroker
from kavka.testing.client import READ_WITHIN_S, Record
from kavka.testing.lifetime import Closing
from kavka.testing.places import DataPath
from kavka.testing.thread import Lock, LoopThread

if TYPE_CHECKING:
    import os

T = TypeVar("T")


class Broker(Closing):
    """A broker in this process, with its data in a temporary directory.

        with kavka.testing.Broker(num_partitions=3) as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    It has its own thread and event loop, and a free port on 127.0.0.1. Settings
    are Apache Kafka's, by keyword with underscores for the dots, or in a mapping:
    `Broker(settings={"log.segment.bytes": 1 << 20})`. Values are text, bool, int, float, paths,
    or lists of them. Raises ConfigError for an unknown or invalid one.

    `data_dir` is a directory to keep; without one the data are removed by `close`, which a `with`
    block calls at its end. A process may have several brokers. A broker does not touch the
    program's signals, logging (its loggers are below `kavka`), gc and event loop policy.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] = NOTHING,
        **keywords: object,
    ) -> None:
        self._broker = AsyncBroker(data_dir=data_dir, settings=settings, **keywords)
        self._thread: LoopThread | None = None
        self._lifecycle_lock = Lock()  # serializes start, stop, kill and close

    # -- start and stop -------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, on its existing data, and return when clients can connect. StartError."""
        with self._lifecycle_lock:
            if self._thread is not None:
                raise RuntimeError("the broker runs already")
            thread = LoopThread("kavka-broker")
            try:
                thread.call(self._broker.start())
            except BaseException:
                thread.end()
                raise
            self._thread = thread
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)
        return self

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does, if it runs. `start` continues with the same address
        and data."""
        with self._lifecycle_lock:
            if self._thread is not None:
                self._end(self._broker.stop())

    def kill(self) -> None:
        """End it as SIGKILL does, if it runs: connections are reset, nothing is flushed or closed
        cleanly. `start` recovers the files, on the same address."""
        with self._lifecycle_lock:
            if self._thread is not None:
                self._end(self._broker.kill())

    def restart(self) -> None:
        """`stop`, if it runs, and `start`: the same address, the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it if it runs, and release its ports and temporary data.

        BrokerFailed if it had stopped after a fatal error. No effect in a forked child: the broker
        belongs to the parent.
        """
        with self._lifecycle_lock:
            if self._thread is None:
                self._broker.forget()
            elif self._thread.is_alive:
                self._end(self._broker.close())
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """The process exits without having stopped the broker. No thread can be started now."""
        if self._thread is not None and self._thread.is_alive:
            self.kill()
        self._broker.forget()

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        thread = self._running_thread(ending)
        self._thread = None
        try:
            thread.call(ending)
        finally:
            thread.end()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._running_thread(coroutine).call(coroutine)

    def _running_thread(self, coroutine: Coroutine[Any, Any, Any]) -> LoopThread:
        """The thread for a coroutine; RuntimeError when there is none to run it."""
        if self._thread is not None and self._thread.is_alive:
            return self._thread
        coroutine.close()
        raise RuntimeError(
            NOT_RUNNING
            if self._thread is None
            else "the broker's thread is not in this process: it was forked after the start"
        )

    # -- state -----------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it is started and has not stopped."""
        return self._broker.is_running

    @property
    def has_failed(self) -> bool:
        """Whether it has stopped after a fatal error; the next `stop`, `kill` or `close` raises
        BrokerFailed then, as does the end of a `with` block."""
        return self._broker.has_failed

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients, of the first listener; it stays the same over restarts."""
        return self._broker.bootstrap_servers

    @property
    def addresses(self) -> Mapping[str, str]:
        """`host:port` of each listener, by its name."""
        return self._broker.addresses

    @property
    def cluster_id(self) -> str:
        """The cluster id; new with new data."""
        return self._broker.cluster_id

    @property
    def data_dir(self) -> DataPath:
        """The directory with the partitions' files; the first one of several."""
        return self._broker.data_dir

    # -- topics and records ---------------------------------------------------------------
    # Calls within the process, without a client. ApiError has Apache Kafka's error code.

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, object] = NOTHING
    ) -> None:
        """Create a topic, with `num.partitions` partitions by default, and with `configs` such as
        `{"retention.ms": 1000}`. It is ready for use at once."""
        self._call(self._broker.create_topic(name, partitions, configs))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; afterwards its name is free."""
        self._call(self._broker.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics but Kafka's internal ones, sorted."""
        return self._call(self._broker.topics())

    def end_offsets(self, topic: str) -> dict[int, int]:
        """By partition, the offset that the next record will get."""
        return self._call(self._broker.end_offsets(topic))

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write one record, with the current time by default. Returns its offset."""
        return self._call(
            self._broker.produce(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        )

    def read(
        self,
        topic: str,
        partition: int | None = None,
        *,
        at_least: int = 0,
        within_s: float = READ_WITHIN_S,
    ) -> list[Record]:
        """All records of a topic, or of one of its partitions, by partition and offset.

        With `at_least` it waits for as many records: TimeoutError if they don't arrive within
        `within_s` seconds.
        """
        return self._call(self._broker.read(topic, partition, at_least=at_least, within_s=within_s))
