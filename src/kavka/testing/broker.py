"""A broker on a thread of its own: `with kavka.testing.Broker() as broker:`."""

from __future__ import annotations

import atexit
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kavka.testing.async_broker import NOTHING, AsyncBroker, BrokerFailed
from kavka.testing.client import READ_WITHIN_S, Record
from kavka.testing.thread import LoopThread

if TYPE_CHECKING:
    import os
    from pathlib import Path

T = TypeVar("T")


class Broker:
    """A broker in this process, with its data in a temporary directory.

        with kavka.testing.Broker(num_partitions=3) as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    It has a thread and an event loop of its own and a port on 127.0.0.1 that was free. Settings
    are Apache Kafka's, by keyword with underscores for the dots, or in a mapping:
    `Broker(settings={"log.segment.bytes": 1 << 20})`. Values are text, bool, int, float, paths,
    or lists of them. ConfigError, at once, for one that there is not or that is bad.

    `data_dir` is a directory to keep; without one the data are removed by `close`, which a `with`
    block does at its end. A process may have several brokers. It leaves signals, logging (its
    loggers are below `kavka`), the collector and the event loop policy of the program alone.
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

    # -- life and death -------------------------------------------------------------------

    def start(self) -> Self:
        """Start it, on the data that it has, and return when clients can connect.

        StartError says why that can't be.
        """
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        thread = LoopThread("kavka-broker")
        try:
            thread.call(self._broker.start())
        except BaseException:
            thread.end()
            raise
        self._thread = thread
        atexit.register(self._leave)
        return self

    def stop(self) -> None:
        """End it in order, as SIGTERM does. `start` goes on with the same address and data."""
        self._end(self._broker.stop())

    def kill(self) -> None:
        """End it as SIGKILL does: connections are cut, nothing is flushed or closed in order,
        the files are what had been written. `start` recovers them, on the same address."""
        self._end(self._broker.kill())

    def restart(self) -> None:
        """`stop` and `start`: the same address, the same data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it if it runs, and remove what it had of the machine, temporary data included.

        BrokerFailed when it had ended by itself. In a forked child nothing happens: the broker
        is the parent's.
        """
        if self._thread is not None and not self._thread.is_alive:
            return
        
    def _leave(self) -> None:
        """The process ends and the broker was not stopped: no job can be started any more."""
