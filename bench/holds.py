"""`python -m bench.holds`: how long big groups hold the loop, in milliseconds of its thread's time.

Nothing but the loop serves connections, so whatever holds it is what everybody else waits. Each
figure is the longest of all callbacks that a case takes, inside the process, without sockets and
disk; beside it what the case takes in all.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from bench import frames, group_frames, hold_requests
from bench.micro_server import START_S_MAX, Answers, InProcess
from kavka.groupcoord.classic.group import ClassicGroup
from kavka.server.main import GC_THRESHOLDS
from kavka.wire import fields

TOPICS: Final = 2_000
MEMBERS: Final = 200
PARTITIONS: Final = 1_000
MEMBERS_OF_ONE_TOPIC: Final = 500
CLASSIC_MEMBERS: Final = 2_000
LEAVERS: Final = 9_000
CASE_S_MAX: Final = 300

OVERRIDES: Final = ("group.consumer.assignment.interval.ms=0",)
"""Each member that comes leads to a new assignment."""

NAMES: Final = [f"topic-of-a-big-group-{number:05d}" for number in range(TOPICS)]
HALF: Final = NAMES[: TOPICS // 2]


class Row(NamedTuple):
    """One case. Times in ms."""

    name: str
    longest: float
    all: float
    callbacks: int


_IS_CLIENT: Final[ContextVar[bool]] = ContextVar("_IS_CLIENT")
"""Set where a callback is of a case itself, and not of the broker."""


class Holds:
    """What callbacks of asyncio's loops take, while `measured`."""

    def __init__(self) -> None:
        self.longest_s = self.all_s = 0.0
        self.callbacks = 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Look at each callback until the block ends."""
        self.longest_s, self.all_s, self.callbacks = 0.0, 0.0, 0
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            if _IS_CLIENT in handle._context:  # type: ignore[attr-defined]
                run(handle)
                return
            began_s = time.thread_time()
            run(handle)
            took_s = time.thread_time() - began_s
            self.longest_s = max(self.longest_s, took_s)
            self.all_s += took_s
            self.callbacks += 1

        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]

    def row(self, name: str) -> Row:
        return Row(name, self.longest_s * 1000, self.all_s * 1000, self.callbacks)


Case: TypeAlias = Callable[["Groups"], Awaitable[None]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; cases can be chosen by a part of their name."""
    parser = argparse.ArgumentParser(prog="python -m bench.holds", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="only cases with this in their name")
    part = parser.parse_args(argv).part
    for name, topics, case in CASES:
        if part in name:
            row = measure(name, topics, case)
            print(
                f"{row.longest:8.2f} ms at most, {row.all:9.2f} ms in {row.callbacks:6d} callbacks"
                f"  {row.name}",
                flush=True,
            )
    return 0


def measure(name: str, topics: Sequence[tuple[str, int]], case: Case) -> Row:
    """One case on a broker of its own."""
    loop = asyncio.new_event_loop()
    holds = Holds()
    with tempfile.TemporaryDirectory(prefix="kavka-holds-") as scratch:
        broker = InProcess(loop, Path(scratch), OVERRIDES)
        try:
            loop.run_until_complete(asyncio.wait_for(broker.start(), START_S_MAX))
            groups = Groups(broker, holds)
            loop.run_until_complete(asyncio.wait_for(_run(case, groups, topics), CASE_S_MAX))
            loop.run_until_complete(broker.stop())
        finally:
            loop.close()
    return holds.row(name)


async def _run(case: Case, groups: Groups, topics: Sequence[tuple[str, int]]) -> None:
    _IS_CLIENT.set(True)
    await groups.make(topics)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    await case(groups)


class _Line(Answers):
    """A connection with one request at a time, which comes in a callback of its own."""

    def __init__(self, broker: InProcess) -> None:
        super().__init__()
        self._protocol = broker.connected(self)
        self._answer: asyncio.Future[memoryview] | None = None
        self._rest = memoryview(b"")
        self._came: list[Any] = []
        self._due = 0
        self._context = Context()

    def ask(self, request: bytes) -> asyncio.Future[memoryview]:
        """The answer, without its length."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._rest = memoryview(request)
        self._came, self._context = [], copy_context()
        loop.call_soon(self._send, context=Context())
        return self._answer

    def _send(self) -> None:
        if not self.reading:
            return
        room = self._protocol.get_buffer(-1)
        part = self._rest[: len(room)]
        room[: len(part)] = part
        self._rest = self._rest[len(part) :]
        self._protocol.buffer_updated(len(part))
        if self._rest:
            asyncio.get_running_loop().call_soon(self._send, context=Context())

    def resume_reading(self) -> None:
        super().resume_reading()
        if self._rest:
            asyncio.get_running_loop().call_soon(self._send, context=Context())

    def write(self, data: Any) -> None:
        """Part of an answer. What is made of the parts is no work of the broker's."""
        if not self._came:
            (self._due,) = struct.unpack_from(">i", data)
            self._due += 4
        self._came.append(bytes(data) if isinstance(data, memoryview) else data)
        self._due -= len(data)
        if not self._due:
            asyncio.get_running_loop().call_soon(self._answered, context=self._context)

    def _answered(self) -> None:
        assert self._answer is not None
        self._answer.set_result(memoryview(b"".join(self._came))[4:])


class Groups:
    """A broker, as one who asks of groups."""

    def __init__(self, broker: InProcess, holds: Holds) -> None:
        self.broker: Final = broker
        self.holds: Final = holds
        self._line = _Line(broker)

    async def make(self, topics: Sequence[tuple[str, int]]) -> None:
        """Topics by name and number of partitions, the same of all, and that of the groups."""
        if topics:
            names, partitions = [name for name, _ in topics], topics[0][1]
            answer = await self.ask(frames.create_topics(names, partitions))
            if any(frames.create_topics_errors(answer)):
                raise RuntimeError("CreateTopics answered an error")
        await self.broker.parts.groups.create_topic()
        for request in WARM:  # what is imported and compiled when it is first asked for
            await self.ask(request)

    async def ask(self, request: bytes) -> memoryview:
        """The answer, without its length."""
        return await self._line.ask(request)

    def joining(self, group_id: str) -> int:
        """How many members of a classic group wait for its next generation."""
        (shard,) = self.broker.parts.groups.shards()
        group = shard.state.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group.joining

    def lines(self, count: int) -> list[_Line]:
        """So many more connections."""
        return [_Line(self.broker) for _ in range(count)]


# -- the requests ------------------------------------------------------------------------------


def _flexible(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, len(frames.CLIENT_ID)) + frames.CLIENT_ID
    frame = header + b"\0" + body
    return struct.pack(">i", len(frame)) + frame


def consumer_join(
    group: str,
    member: str,
    names: Sequence[str] | None,
    *,
    regex: str | None = None,
    assignor: str | None = None,
    instance: str | None = None,
    epoch: int = 0,
) -> bytes:
    """ConsumerGroupHeartbeat v1 that tells everything."""
    topics = b"\0" if names is None else fields.array(names, fields.string)
    body = (
        fields.string(group)
        + fields.string(member)
        + struct.pack(">i", epoch)
        + fields.string(instance)
        + fields.string(None)
        + struct.pack(">i", group_frames.REBALANCE_MS)
        + topics
        + fields.string(regex)
        + fields.string(assignor)
        + fields.uvarint(1)
        + b"\0"
    )
    return _flexible(68, 1, body)


def consumer_beat(group: str, member: str, epoch: int) -> bytes:
    """ConsumerGroupHeartbeat v1 that tells nothing new."""
    body = (
        fields.string(group)
        + fields.string(member)
        + struct.pack(">i", epoch)
        + b"\0\0"
        + struct.pack(">i", -1)
        + b"\0\0\0\0\0"
    )
    return _flexible(68, 1, body)


def consumer_describe(group: str) -> bytes:
    """ConsumerGroupDescribe v0."""
    return _flexible(69, 0, fields.uvarint(2) + fields.string(group) + b"\0\0")


def leave(group: str, members: Sequence[tuple[str, str | None]]) -> bytes:
    """LeaveGroup v3: member ids with instance ids."""
    body = frames.string(group) + struct.pack(">i", len(members))
    for member, instance in members:
        body += frames.string(member)
        body += b"\xff\xff" if instance is None else frames.string(instance)
    return frames.frame(13, 3, body)


def join(group: str, member: str, instance: str | None) -> bytes:
    """JoinGroup v5."""
    protocol = frames.string("range") + struct.pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION
    timeouts = struct.pack(">ii", group_frames.SESSION_MS, group_frames.REBALANCE_MS)
    rest = frames.string("consumer") + struct.pack(">i", 1) + protocol
    whose = b"\xff\xff" if instance is None else frames.string(instance)
    return frames.frame(
        group_frames.JOIN_GROUP,
        5,
        frames.string(group) + timeouts + frames.string(member) + whose + rest,
    )


SUBSCRIPTION: Final = group_frames.SUBSCRIPTION


def epoch_in(answer: memoryview) -> int:
    """The member epoch in an answer to ConsumerGroupHeartbeat v1. RuntimeError for an error."""
    (code,) = struct.unpack_from(">h", answer, 9)
    if code:
        raise RuntimeError(f"ConsumerGroupHeartbeat answered error {code}")
    at = 11
    at += max(1, answer[at])  # no message
    at += max(1, answer[at])  # the member's id
    return int(struct.unpack_from(">i", answer, at)[0])


WARM: Final = (
    consumer_join("warm", "m", ["topic"]),
    consumer_describe("warm"),
    leave("warm", [("m", None)]),
    group_frames.join_group("classic"),
    join("classic", "", None),
)


# -- the cases ---------------------------------------------------------------------------------


def _member(number: int) -> str:
    return f"member-{number:05d}"


def _names(number: int, *, mixed: bool) -> Sequence[str]:
    return HALF if mixed and number % 2 else NAMES


def _joins(members: int, names: Callable[[int], Sequence[str] | None], **options: Any) -> Case:
    """Members join one by one, and the last of them is measured: all others are there."""

    async def case(groups: Groups) -> None:
        for number in range(members - 1):
            epoch_in(
                await groups.ask(consumer_join("g", _member(number), names(number), **options))
            )
        with groups.holds.measured():
            last = consumer_join("g", _member(members - 1), names(members - 1), **options)
            epoch_in(await groups.ask(last))

    return case


async def _heartbeats(groups: Groups) -> None:
    """All have joined: the others come to what they shall have, one after another."""
    epochs = [0] * MEMBERS
    for number in range(MEMBERS):
        epochs[number] = epoch_in(await groups.ask(consumer_join("g", _member(number), NAMES)))
    with groups.holds.measured():
        for number, epoch in enumerate(epochs):
            await groups.ask(consumer_beat("g", _member(number), epoch))


async def _regex(groups: Groups) -> None:
    with groups.holds.measured():
        epoch = 0
        for _ in range(40):
            epoch = epoch_in(
                await groups.ask(
                    consumer_join("g", "m", None, regex="topic-of-.*")
                    if not epoch
                    else consumer_beat("g", "m", epoch)
                )
            )
            await asyncio.sleep(0.01)


def _describes(members: int, names: Sequence[str]) -> Case:
    async def case(groups: Groups) -> None:
        for number in range(members):
            await groups.ask(consumer_join("g", _member(number), names))
        with groups.holds.measured():
            await groups.ask(consumer_describe("g"))

    return case


async def _consumers_leave(groups: Groups) -> None:
    """Static members of a consumer group, put out by an administrator."""
    for number in range(LEAVERS // 3):
        name = _member(number)
        await groups.ask(consumer_join("g", name, ["topic"], instance=f"i-{name}"))
    leavers = [("", f"i-{_member(number)}") for number in range(LEAVERS // 3)]
    with groups.holds.measured():
        await groups.ask(leave("g", leavers))


async def _nobodies_leave(groups: Groups) -> None:
    await groups.ask(consumer_join("g", "m", ["topic"]))
    with groups.holds.measured():
        await groups.ask(leave("g", [(_member(number), None) for number in range(LEAVERS)]))


async def _pending_leave(groups: Groups) -> None:
    """Ids that were given and not used."""
    ids = []
    for _ in range(LEAVERS):
        answer = await groups.ask(join("g", "", None))
        ids.append(_last_id(answer))
    with groups.holds.measured():
        await groups.ask(leave("g", [(member_id, None) for member_id in ids]))


def _last_id(answer: memoryview) -> str:
    """The member's id in an answer to JoinGroup v5."""
    at = 14
    for _ in range(2):
        at += 2 + struct.unpack_from(">h", answer, at)[0]
    (length,) = struct.unpack_from(">h", answer, at)
    return str(answer[at + 2 : at + 2 + length], "utf-8")


async def _classic(groups: Groups) -> None:
    """A classic group rebalances: the last JoinGroup, then each SyncGroup, the leader's last."""
    lines = groups.lines(CLASSIC_MEMBERS)
    first = group_frames.joined(await lines[0].ask(group_frames.join_group("g")))
    joins = [line.ask(group_frames.join_group("g")) for line in lines[1:]]
    while groups.joining("g") < len(joins):
        await asyncio.sleep(0.01)
    with groups.holds.measured():
        joins.append(lines[0].ask(group_frames.join_group("g", first.member_id)))
        *others, leader = [group_frames.joined(answer) for answer in await asyncio.gather(*joins)]
        synced = [
            line.ask(group_frames.sync_group("g", member))
            for line, member in zip(lines[1:], others, strict=True)
        ]
        await asyncio.sleep(0.01)
        synced.append(lines[0].ask(group_frames.sync_group("g", leader)))
        for answer in await asyncio.gather(*synced):
            group_frames.check(answer, "SyncGroup")


_MANY: Final = [(name, 1) for name in NAMES]
_VERY_MANY: Final = [f"topic-of-a-big-group-{number:05d}" for number in range(10_000)]
_ONE: Final = [("wide", PARTITIONS)]

CASES: Final[Sequence[tuple[str, Sequence[tuple[str, int]], Case]]] = (
    ("a first member joins, 2,000 topics", _MANY, _joins(1, lambda number: NAMES)),
    ("200th member joins, 2,000 topics, uniform", _MANY, _joins(MEMBERS, lambda number: NAMES)),
    (
        "200th member joins, 2,000 topics, range",
        _MANY,
        _joins(MEMBERS, lambda number: NAMES, assignor="range"),
    ),
    (
        "200th member joins, 2,000 and 1,000 topics, uniform",
        _MANY,
        _joins(MEMBERS, lambda number: _names(number, mixed=True)),
    ),
    ("a member joins, 10,000 topics that are not there", (), _joins(2, lambda number: _VERY_MANY)),
    (
        "a member joins, 10,000 topics",
        [(name, 1) for name in _VERY_MANY],
        _joins(2, lambda number: _VERY_MANY),
    ),
    ("200 members, 2,000 topics: heartbeats after all have joined", _MANY, _heartbeats),
    (
        "500th member joins, 1,000 partitions",
        _ONE,
        _joins(MEMBERS_OF_ONE_TOPIC, lambda number: ["wide"]),
    ),
    ("a regular expression of 2,000 topics", _MANY, _regex),
    ("ConsumerGroupDescribe, 200 members, 2,000 topics", _MANY, _describes(MEMBERS, NAMES)),
    (
        "ConsumerGroupDescribe, 500 members, 1,000 partitions",
        _ONE,
        _describes(MEMBERS_OF_ONE_TOPIC, ["wide"]),
    ),
    ("2,000 classic members rebalance", (), _classic),
    ("LeaveGroup, 9,000 that are not there", (), _nobodies_leave),
    ("LeaveGroup, 9,000 that were given ids", (), _pending_leave),
    ("LeaveGroup, 3,000 static consumers", (), _consumers_leave),
    *hold_requests.CASES,
)


if __name__ == "__main__":
    sys.exit(main())
