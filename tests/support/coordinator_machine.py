"""A broker in memory as the machine of scenario files; a kind of scenarios adds its commands.

A command gives one line: the responses that came, what has changed in what `look` shows, and
warnings of coordinators. The topic "t" is there from the beginning.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, ClassVar

import pytest
from kafka.record import MemoryRecords

from kavka.log.memfs import Fault
from kavka.log.partition_log import PartitionLog
from kavka.server.coordinators import serial_queue
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.wire.errors import ApiError, ErrorCode
from support.logs import bytes_of
from support.loop_context import LoopContext
from support.memory_broker import DATA, MemoryBroker
from support.scenarios import Command, duration_ms
from support.virtual import run_until_idle

COORDINATORS = "kavka.server.coordinators"


class CoordinatorMachine(LoopContext):
    """One broker, in a context at whose end it stops cleanly."""

    settings: ClassVar[tuple[str, ...]] = ()
    partitions: ClassVar[int] = 1
    """Of "t"."""

    broker: MemoryBroker

    def __init__(self, caplog: pytest.LogCaptureFixture, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.caplog = caplog
        self.patch = patch
        self.events: list[str] = []
        """What came out since the last line."""
        self.pending: list[tuple[str, asyncio.Future[Any]]] = []
        self._shown: dict[str, str] = {}

    async def begin(self) -> None:
        await self._start(*self.settings)
        self._shown = await self.look()

    async def finish(self) -> None:
        await self.broker.stop()

    async def _start(self, *settings: str) -> None:
        self.broker = MemoryBroker(*settings)
        await self.broker.start()
        await self.broker.create("t", self.partitions)

    # -- what came out

    async def look(self) -> dict[str, str]:
        """What can be seen now, by name."""
        raise NotImplementedError

    def request(self, name: str, ask: Callable[[], Any], *, iterations: int = 0) -> list[str]:
        """A request, whose response may have to wait, and some iterations of the event loop."""

        async def requested() -> None:
            try:
                answer = ask()
            except ApiError as failure:
                self.events.append(f"{name}: {failure.code.name}")
                return
            if isinstance(answer, Awaitable):
                self.pending.append((name, asyncio.ensure_future(answer)))
            else:
                self.events.append(f"{name}: {text_of(answer)}")
            await run_until_idle(iterations)

        return self._line(requested())

    def then(self, work: Awaitable[object] | Callable[[], object] | None = None) -> list[str]:
        """`work`, and all that follows from it without time passing."""

        async def done() -> None:
            if isinstance(work, Awaitable):
                await work
            elif work is not None:
                work()
            await run_until_idle(100)

        return self._line(done())

    def _line(self, work: Coroutine[Any, Any, object]) -> list[str]:
        self.run(work)
        found = self.run(self.look())
        events, self.events = self.events, []
        for name, answer in [entry for entry in self.pending if entry[1].done()]:
            self.pending.remove((name, answer))
            if not answer.cancelled():
                events.append(f"{name}: {text_of(answer.exception() or answer.result())}")
        events += [f"{key}: {text}" for key, text in found.items() if self._shown.get(key) != text]
        self._shown |= found
        records = [record for record in self.caplog.records if record.name.startswith(COORDINATORS)]
        events += dict.fromkeys(record.getMessage() for record in records)
        self.caplog.clear()
        return ["; ".join(events)]

    # -- the broker

    def do_broker(self, command: Command) -> list[str]:
        """A new broker with these settings."""
        settings = [f"{key}={command.get(key)}" for key in command.options]
        self.run(self.broker.stop())
        self.run(self._start(*self.settings, *settings))
        return []

    def do_advance(self, command: Command) -> list[str]:
        """Time passes."""
        return self.then(self.broker.advance(duration_ms(command.words[0])))

    def do_kill(self, command: Command) -> list[str]:
        """The broker is killed and started again."""
        return self.then(self.broker.kill())

    def do_restart(self, command: Command) -> list[str]:
        """The broker is stopped and started again."""
        return self.then(self.broker.restart())

    def do_hold(self, command: Command) -> list[str]:
        """Jobs, perhaps only those of a name, do not begin any more."""
        self.broker.jobs.hold(*command.words)
        return []

    def do_release(self, command: Command) -> list[str]:
        """They begin."""
        return self.then(self.broker.jobs.release)

    def do_fail(self, command: Command) -> list[str]:
        """An operation on the log of a partition fails, `times=` times, with this error."""
        operation, place, error = command.words
        log, times = f"{DATA}/{place}/{0:020}.log", command.number("times", 1)
        self.broker.fs.faults.append(Fault(operation, log, getattr(errno, error), times=times))
        return []

    def do_queue_limit(self, command: Command) -> list[str]:
        """So many requests may wait behind a long one."""
        self.patch.setattr(serial_queue, "QUEUED_MAX", int(command.words[0]))
        return []

    # -- replicas

    def do_lag(self, command: Command) -> list[str]:
        """A replica on another broker lags: nothing more is committed."""
        return self._each(command, lambda replica: self.broker.share((1, 2), *replica.key))

    def do_shrink(self, command: Command) -> list[str]:
        """That replica leaves the ISR."""
        return self._each(command, lambda replica: self.broker.share((1,), *replica.key))

    def do_alone(self, command: Command) -> list[str]:
        """That replica is removed."""
        return self._each(command, lambda replica: self.broker.unshare(*replica.key))

    def do_follow(self, command: Command) -> list[str]:
        """Another broker becomes the leader."""

        def follow(replica: Replica) -> None:
            replica.partition.follow(next_term(replica, leader=2))
            replica.role_changed()

        return self._each(command, follow)

    def do_lead(self, command: Command) -> list[str]:
        """This broker becomes the leader in a new epoch."""

        def lead(replica: Replica) -> None:
            for change in replica.partition.lead(next_term(replica, leader=1)):
                replica.log.assign_epoch(change.epoch, change.start_offset)
            replica.role_changed()

        return self._each(command, lead)

    def _each(self, command: Command, do: Callable[[Replica], object]) -> list[str]:
        def each() -> None:
            for topic_partition in places_of(command.words):
                do(self.broker.replica(*topic_partition))

        return self.then(each)


def next_term(replica: Replica, leader: int) -> LeaderAndIsrState:
    """The next leader epoch, with brokers 1 and 2 as replicas."""
    now = replica.partition
    return LeaderAndIsrState(
        1, leader, now.leader_epoch + 1, (leader,), now.partition_epoch + 1, (1, 2)
    )


def places_of(words: Iterable[str]) -> list[tuple[str, int]]:
    """Topics and partitions."""
    return [(topic, int(index)) for topic, _, index in (word.rpartition("-") for word in words)]


def contents(log: PartitionLog, high_watermark: int) -> str:
    """Its records as keys and values, and markers; what is not committed stands behind "|"."""
    found = log.read(0, 1 << 20, upto=log.end_offset, at_least_one=True)
    batches = MemoryRecords(b"" if found is None else bytes_of(found))
    words = []
    while (batch := batches.next_batch()) is not None:
        for record in batch:
            if record.offset == high_watermark:
                words.append("|")
            if batch.is_control_batch:
                words.append(("abort", "commit")[record.key[3]])
            else:
                words.append("=".join(text_of(data) for data in (record.key, record.value) if data))
    return " ".join(words) or "empty"


def text_of(value: object) -> str:
    """A response, or its error."""
    if isinstance(value, ApiError):
        return value.code.name
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, Exception):
        return type(value).__name__
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text if len(text) < 20 else f"{text[0]}*{len(text)}"
