"""Whole requests inside the process: from the bytes in a connection's arena to its answer's bytes.

No socket and no disk write; what is left is the broker's own Python. One connection, one request
at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from bench import frames, group_frames
from bench.micro_log import UnwrittenFs
from kavka.log.fs import OsFs
from kavka.server.broker import Broker
from kavka.server.config import BrokerSettings
from kavka.server.instance import Instance
from kavka.server.runtime.clock import SystemClock
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.tasks import LoopTasks

Named = tuple[str, Callable[[], object]]

TOPIC: Final = "topic"
BATCHES: Final = {"one record": frames.Batch(100, 1), "16 KiB": frames.Batch(1024, 15)}
RULES: Final = {
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "opened": {"message.timestamp.before.max.ms": "86400000"},
    "to-zstd": {"compression.type": "zstd"},
}
"""Topics whose batches can't be appended as they came."""

READ_BATCHES: Final = 2048
READ_BYTES: Final = {"64 KiB": 64 << 10, "1 MiB": 1 << 20}

GROUP: Final = "group"
NO_WAITING: Final = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1")

START_S_MAX: Final = 30.0


def calls(scratch: Path) -> Iterator[Named]:
    """Everything to measure here; files go to `scratch`."""
    loop = asyncio.new_event_loop()
    broker = InProcess(loop, scratch)
    try:
        loop.run_until_complete(asyncio.wait_for(broker.start(), START_S_MAX))
        for label, batch in BATCHES.items():
            request = frames.produce(TOPIC, 0, batch.encode())
            yield f"server: Produce of {label}, remembered", partial(broker.ask, request)
            yield (
                f"server: Produce of {label}, the general way",
                partial(broker.ask_anew, request),
            )
        fetch = frames.FetchRequest(TOPIC, 0, max_wait_ms=0, partition_max_bytes=1 << 20)
        yield "server: Fetch of nothing", partial(broker.ask, bytes(fetch.at(broker.end())))
        yield "server: ApiVersions", partial(broker.ask, frames.api_versions())
        member = broker.join(GROUP)
        beat = group_frames.heartbeat(GROUP, member)
        yield "server: Heartbeat, remembered", partial(broker.ask, beat)
        yield "server: Heartbeat, the general way", partial(broker.ask_anew, beat)
        listing = frames.list_end_offset(TOPIC)
        yield "server: ListOffsets, remembered", partial(broker.ask, listing)
        yield "server: ListOffsets, the general way", partial(broker.ask_anew, listing)
        commit = group_frames.offset_commit("simple", {TOPIC: [5]})
        yield "server: OffsetCommit of one partition", partial(broker.ask, commit)
        encoded = BATCHES["16 KiB"].encode()
        for label, configs in RULES.items():
            broker.make(label, configs)
            request = frames.produce(label, 0, encoded)
            yield f"server: Produce of 16 KiB, topic {label}", partial(broker.ask, request)
        loop.run_until_complete(broker.stop())
        yield from _reading(loop, scratch / "reading")
    finally:
        loop.close()


def _reading(loop: asyncio.AbstractEventLoop, scratch: Path) -> Iterator[Named]:
    """Fetches that go on where the last one ended, from the page cache."""
    broker = InProcess(loop, scratch, fs=OsFs())
    loop.run_until_complete(asyncio.wait_for(broker.start(), START_S_MAX))
    batch = BATCHES["16 KiB"]
    request = frames.produce(TOPIC, 0, batch.encode())
    first = broker.end()
    for _ in range(READ_BATCHES):
        broker.ask(request)
    for label, size in READ_BYTES.items():
        fetch = frames.FetchRequest(TOPIC, 0, max_wait_ms=0, partition_max_bytes=size)
        records = size // len(batch.encode()) * batch.records
        offsets = range(first, broker.end() - records, records)
        requests = cycle([bytes(fetch.at(offset)) for offset in offsets])
        yield f"server: Fetch of {label}", partial(_ask_next, broker, requests)
    waiting = WaitingReader(broker)
    request = frames.produce(TOPIC, 0, BATCHES["one record"].encode())
    yield "server: Fetch that waits for one record, remembered", partial(waiting.read, request)
    yield (
        "server: Fetch that waits for one record, the general way",
        partial(waiting.read_anew, request),
    )
    loop.run_until_complete(broker.stop())


class WaitingReader:
    """Another connection, whose Fetch waits at the end of the log until a record is written on the
    first one; which takes a part of the time, too."""

    def __init__(self, broker: InProcess) -> None:
        self._broker = broker
        self._transport = Answers()
        self._protocol = broker.connected(self._transport)
        self._fetch = frames.FetchRequest(TOPIC, 0, max_wait_ms=30_000, partition_max_bytes=1 << 20)

    def read(self, request: bytes) -> None:
        """Fetch, and write what is waited for."""
        fetch = self._fetch.at(self._broker.end())
        size = len(fetch)
        self._transport.last = b""
        self._protocol.get_buffer(-1)[:size] = fetch
        self._protocol.buffer_updated(size)
        self._broker.ask(request)
        self._broker.take_turn()
        if not self._transport.last:
            raise RuntimeError("the Fetch was not answered")

    def read_anew(self, request: bytes) -> None:
        """The same, on a connection that remembers nothing."""
        self._protocol._fast_path.requests.clear()
        self.read(request)


def _ask_next(broker: InProcess, requests: Iterator[bytes]) -> None:
    broker.ask(next(requests))


class Answers(asyncio.Transport):
    """Takes answers and keeps the last one's bytes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.last: Any = b""
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All is written at once."""

    def write(self, data: Any) -> None:
        self.last = data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to close."""

    abort = close


class _Network:
    """`kavka.seams.Network` that keeps what would serve a socket."""

    port = 1
    factory: Callable[[str], asyncio.BaseProtocol | None]

    async def bind(self, host: str, port: int) -> _Network:
        return self

    async def accept(self, factory: Callable[[str], asyncio.BaseProtocol | None]) -> None:
        self.factory = factory

    def pause(self) -> None:
        """There is nobody to keep waiting."""

    def resume(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """There is nothing to close."""

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        raise ConnectionRefusedError(port)

    async def resolve(self, host: str) -> str:
        return host

    def host_name(self) -> str:
        return "localhost"


class InProcess:
    """A broker on a loop that runs only where something has to wait."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scratch: Path,
        overrides: Sequence[str] = (),
        fs: OsFs | None = None,
    ) -> None:
        """`overrides`: settings beside those that all have here; `fs`: by default one that writes
        no records."""
        self._loop = loop
        self._network = _Network()
        self._jobs = ThreadJobs(loop)
        self._instance = Instance(
            BrokerSettings.load(
                overrides=[f"log.dirs={scratch / 'server'}", *NO_WAITING, *overrides]
            ),
            clock=SystemClock(),
            tasks=LoopTasks(loop),
            jobs=self._jobs,
            random=random.Random(0),
            fs=fs or UnwrittenFs(),
            network=self._network,
            on_failure=loop.stop,
        )

    async def start(self) -> None:
        """Start, and make the topic."""
        await self._instance.start()
        self._connect()
        await self._make(TOPIC, {})

    def join(self, group: str) -> group_frames.Joined:
        """Make a group of one member."""
        self.await_answer(group_frames.find_coordinator(group))
        member = group_frames.joined(self.await_answer(group_frames.join_group(group)))
        self.await_answer(group_frames.sync_group(group, member))
        return member

    def await_answer(self, request: bytes) -> memoryview:
        """The answer to a request that may have to wait, without its size."""
        return self._loop.run_until_complete(self._ask_later(request))

    async def _ask_later(self, request: bytes) -> memoryview:
        """The answer to a request that may have to wait."""
        self._transport.last = b""
        self._send(request)
        while not self._transport.last:
            await asyncio.sleep(0.001)
        return memoryview(bytes(self._transport.last))[4:]

    def make(self, topic: str, configs: Mapping[str, str]) -> None:
        """Make another topic."""
        self._loop.run_until_complete(self._make(topic, configs))

    async def _make(self, topic: str, configs: Mapping[str, str]) -> None:
        code = frames.create_topic_error(
            await self._ask_later(frames.create_topic(topic, 1, configs=configs))
        )
        if code:
            raise RuntimeError(f"CreateTopics answered error {code}")

    async def stop(self) -> None:
        with suppress(OSError):  # the records that were never written are missed
            await self._instance.stop()
        await self._jobs.close()

    def _connect(self) -> None:
        self._transport = Answers()
        self._protocol = self.connected(self._transport)

    def connected(self, transport: asyncio.Transport) -> Any:
        """The broker's end of a new connection, whose answers go to `transport`."""
        protocol: Any = self._network.factory("127.0.0.1")
        protocol.connection_made(transport)
        return protocol

    @property
    def parts(self) -> Broker:
        """The broker as its handlers see it."""
        assert self._instance.broker is not None
        return self._instance.broker

    def end(self) -> int:
        """The end of the log."""
        assert self._instance.broker is not None
        replica = self._instance.broker.replicas.find(TOPIC, 0)
        assert replica is not None
        return replica.log.end_offset

    def ask(self, request: bytes) -> None:
        """One request that is answered at once."""
        self._send(request)
        if not self._transport.reading:  # its turn is over
            self.take_turn()

    def take_turn(self) -> None:
        """One turn of the loop."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def ask_anew(self, request: bytes) -> None:
        """The same, to a connection that remembers nothing."""
        self._protocol._fast_path.requests.clear()
        self.ask(request)

    def _send(self, request: bytes) -> None:
        size = len(request)
        self._transport.last = b""  # a real transport keeps no view of what it has sent
        self._protocol.get_buffer(-1)[:size] = request
        self._protocol.buffer_updated(size)
