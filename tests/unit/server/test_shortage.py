"""A broker that finds no file descriptor, at each single place where it needs one.

In each case, clients are answered with an error that they retry, no log directory goes
offline, and what was acknowledged is there; then, after a kill, and after a power cut.
SHORTAGE_EVERY (3; `make faults` sets 1) leaves places out.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import storage
from support import logs
from support.cleaning import BACKOFF, COMPACT
from support.compaction import read_all
from support.memory_broker import DATA, MemoryBroker
from support.memory_transactions import Transactor, values_of
from support.shortage import ShortFs
from support.virtual import run_until_idle

EVERY: Final = int(os.environ.get("SHORTAGE_EVERY", "3"))
TRIES_MAX: Final = 60
VALUE: Final = bytes(200)

SETTINGS: Final = (
    BACKOFF,
    "log.flush.offset.checkpoint.interval.ms=5000",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "log.segment.delete.delay.ms=1000",
)
TWO: Final = f"log.dirs={DATA},/more"
ROLLING: Final = {"internal.segment.bytes": "1000"}


class Model:
    """A client that asks again as clients do, and knows the responses it got."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.records: dict[str, list[bytes]] = {}
        """What was acknowledged in partition 0 of topics."""
        self.last: dict[bytes, bytes] = {}
        """By key, of the compacted topic."""
        self.offset = -1
        """That the group has committed."""

    async def ask(self, name: str, version: int, **values: Any) -> Any:
        """The answer, however long it takes."""
        answer = asyncio.ensure_future(self.broker.client.ask(name, version, **values))
        for _ in range(TRIES_MAX):
            await run_until_idle()
            if answer.done():
                return answer.result()
            await self.broker.advance(500)
        raise AssertionError(f"{name} is not answered")

    async def until_done(self, ask: Callable[[], Awaitable[Code]], *fine: Code) -> None:
        for _ in range(TRIES_MAX):
            code = await ask()
            if code == Code.NONE or code in fine:
                return
            assert code.retriable, code
            await self.broker.advance(500)
        raise AssertionError("it is never done")

    async def create(self, name: str, configs: dict[str, str] | None = None) -> None:
        async def ask() -> Code:
            topic = new_topic(name, 1, configs=configs)
            answer = await self.ask("CreateTopics", 5, timeout_ms=20_000, topics=[topic])
            return Code(answer.topics[0].error_code)

        await self.until_done(ask, Code.TOPIC_ALREADY_EXISTS)
        self.records[name] = []

    async def delete(self, name: str) -> None:
        async def ask() -> Code:
            answer = await self.ask("DeleteTopics", 5, topic_names=[name], timeout_ms=20_000)
            return Code(answer.responses[0].error_code)

        del self.records[name]
        await self.until_done(ask)

    async def produce(self, value: bytes, topic: str = "t", key: bytes | None = None) -> None:
        async def ask() -> Code:
            records = [Written(key, value)]
            return Code((await self.broker.produce(build(records), topic)).error_code)

        await self.until_done(ask)
        self.records[topic].append(value)
        if key is not None:
            self.last[key] = value

    async def find_coordinator(self, key: str, kind: int) -> None:
        async def ask() -> Code:
            answer = await self.ask("FindCoordinator", 2, key=key, key_type=kind)
            return Code(answer.error_code)

        await self.until_done(ask)

    async def commit(self, offset: int) -> None:
        async def ask() -> Code:
            partition = {"partition_index": 0, "committed_offset": offset}
            answer = await self.ask(
                "OffsetCommit",
                7,
                group_id="g",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "t", "partitions": [partition | {"committed_metadata": ""}]}],
            )
            return Code(answer.topics[0].partitions[0].error_code)

        await self.until_done(ask)
        self.offset = offset

    async def check(self) -> None:
        """No trace of the failure is left."""
        broker = self.broker
        assert not broker.parts.replicas.logs.failed_directories
        assert broker.failed == 0
        assert not any(replica.offline for replica in broker.replicas())
        image = broker.parts.metadata.image
        assert {name for name in image.topics if not name.startswith("__")} == set(self.records)
        for topic, values in self.records.items():
            if topic == "compacted":
                kept = {record.value for record in read_all(broker.replica(topic).log)}
                assert set(self.last.values()) <= kept <= {*values, b"aborted"}
            else:
                found = [record.value for record in await broker.read_all(topic)]
                assert found == values

        async def fetch() -> Code:
            topics = [{"name": "t", "partition_indexes": [0]}]
            answer = await self.ask("OffsetFetch", 5, group_id="g", topics=topics)
            notified.append(answer.topics[0].partitions[0].committed_offset)
            return Code(answer.error_code)

        notified: list[int] = []
        await self.until_done(fetch)
        assert notified[-1] == self.offset


Operation: TypeAlias = Callable[[Model], Awaitable[None]]


async def creates(model: Model) -> None:
    await model.create("new")
    await model.produce(b"first", "new")


async def deletes(model: Model) -> None:
    await model.delete("old")
    await model.broker.advance(3000)


async def creates_again(model: Model) -> None:
    """The checkpoints must not tell of the log of that name that was deleted."""
    await model.delete("old")
    await model.create("old")
    await model.produce(b"of the new one", "old")


async def appends(model: Model) -> None:
    for number in range(8):
        await model.produce(b"%d" % number + VALUE)


async def begun(model: Model) -> Transactor:
    producer = Transactor(model.broker, "tx")

    async def init() -> Code:
        answer = await model.ask(
            "InitProducerId",
            5,
            transactional_id="tx",
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code == Code.NONE:
            producer._is_now(answer)
        return Code(answer.error_code)

    await model.find_coordinator("tx", 1)
    await model.until_done(init)
    return producer


async def aborts_one(model: Model, topic: str) -> None:
    """A batch with a key."""
    producer = await begun(model)
    now = producer.now._replace(sequence=0)
    data = logs.batch([b"aborted"], keys=[b"k"], producer=now, transactional=True)

    async def write() -> Code:
        return (await producer.write_all({(topic, 0): bytes(data)}))[0].code

    async def end() -> Code:
        return await producer.end(commit=False)

    await model.until_done(write)
    await model.until_done(end)


async def aborts(model: Model) -> None:
    """What is aborted is never read, and the transaction comes to its end."""
    broker, topic = model.broker, "txns"
    for commits in (False, True):
        producer = await begun(model)
        values = [b"%d %d" % (commits, number) + VALUE for number in range(3)]
        for value in values:

            async def write(value: bytes = value, producer: Transactor = producer) -> Code:
                return (await producer.write((topic, 0), [value])).code

            await model.until_done(write)

        async def end(commits: bool = commits, producer: Transactor = producer) -> Code:
            return await producer.end(commit=commits)

        await model.until_done(end)
        if commits:
            await broker.advance(10_000)
            end_shortage(broker)
            found = []
            for segment in broker.replica(topic).log._segments:
                answer = await broker.fetch(segment.base_offset, topic, isolation_level=1)
                found += values_of(answer)
            assert found == values
            assert broker.replica(topic).last_stable_offset == broker.replica(topic).log.end_offset


async def compacts(model: Model) -> None:
    """Also the record of an aborted transaction, whose records are there until then."""
    for number in range(20):
        if number == 5:
            await aborts_one(model, "compacted")
        await model.produce(b"%d" % number + VALUE, "compacted", b"%d" % (number % 3))
    await model.broker.advance(10_000)
    assert (model.broker.replica("compacted").log.compaction.clean_upto or 0) > 10


async def expires(model: Model) -> None:
    """Old segments go."""
    for _ in range(8):
        await model.produce(VALUE, "short")
    replica = model.broker.replica("short")
    await model.broker.advance(6 * 60_000)  # log.retention.check.interval.ms is 5 minutes
    assert replica.log.segment_count < 4
    gone = replica.log.start_offset
    model.records["short"] = model.records["short"][gone:]


async def checkpoints(model: Model) -> None:
    await model.produce(b"x")
    await model.broker.advance(20_000)
    end_shortage(model.broker)
    await model.broker.advance(10_000)
    path = f"{DATA}/replication-offset-checkpoint"
    assert f"t 0 {len(model.records['t'])}" in model.broker.fs.read_bytes(path).decode()


async def commits_offsets(model: Model) -> None:
    for offset in range(3, 6):
        await model.commit(offset)


async def changes_much(model: Model) -> None:
    """The coordination service begins a new log."""
    for number in range(6):
        name = f"more-{number}"
        await model.create(name)


OPERATIONS: Final[tuple[Operation, ...]] = (
    creates,
    deletes,
    creates_again,
    appends,
    aborts,
    compacts,
    expires,
    checkpoints,
    commits_offsets,
    changes_much,
)


async def prepared(*settings: str) -> Model:
    broker = MemoryBroker(*SETTINGS, *settings, fs=ShortFs())
    await broker.start()
    model = Model(broker)
    for name, configs in {
        "t": ROLLING,
        "old": ROLLING,
        "txns": ROLLING,
        "compacted": COMPACT,
        "short": ROLLING | {"retention.bytes": "1000"},
    }.items():
        await model.create(name, configs)
        if name not in ("txns", "compacted"):
            await model.produce(b"before", name)
    await model.find_coordinator("g", 0)
    await model.commit(1)
    await broker.advance(6000)
    return model


def end_shortage(broker: MemoryBroker) -> None:
    """There are descriptors for everybody again."""
    assert isinstance(broker.fs, ShortFs)
    broker.fs.short_from = None


async def once(operation: Operation, after: int, times: int, ends: str) -> bool:
    """Whether there was a descriptor too few."""
    model = await prepared()
    broker, fs = model.broker, model.broker.fs
    assert isinstance(fs, ShortFs)
    fs.run_short(after, times)
    if operation is aborts:
        del model.records["txns"]  # whose records are looked at there
    try:
        await operation(model)
        await broker.advance(60_000)
        refused = list(fs.refused)
        end_shortage(broker)
        if operation is aborts:
            model.records["txns"] = [
                record.value for record in await broker.read_all("txns") if record.value
            ]
        await model.check()
        assert not [name for name in fs.list_dir(DATA) if "-delete" in name]
        if ends == "kill":
            await broker.kill()
        elif ends == "power cut":
            for replica in broker.replicas():
                broker.parts.replicas.flusher.flush_soon(replica)
            await broker.crash(random.Random(after))
        else:
            await broker.restart()
        if ends != "power cut":  # what is not flushed may go
            await model.check()
        await broker.stop()
    except BaseException as failure:
        failure.add_note(f"without a descriptor for {fs.refused}")
        raise
    return bool(refused)


def first_place(times: int) -> int:
    """Others than for another number of times, if places are left out."""
    return (times // 4) % EVERY


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_place_where_a_descriptor_is_needed_does_harm(
    operation: Operation, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOG_BYTES_MAX", 500)
    ends = itertools.cycle(("kill", "stop", "power cut"))
    place = first_place(times)
    while asyncio.run(once(operation, place, times, next(ends))):
        place += EVERY
    assert place > 3


@pytest.mark.parametrize("times", [1, 5, 20])
def test_a_start_without_descriptors_takes_no_directory_offline(times: int) -> None:
    """Where it can't do without one, it fails, and another one finds all as it was."""

    async def start(after: int) -> bool:
        model = await prepared(TWO)
        await appends(model)
        await model.broker.die()
        fs = model.broker.fs
        assert isinstance(fs, ShortFs)
        again = MemoryBroker(*SETTINGS, TWO, fs=fs)
        fs.run_short(after, times)
        model.broker = again
        try:
            await again.start()
        except Exception as failure:
            assert fs.refused, failure
            end_shortage(again)
            await again.die()
            await again.revive()
        refused = bool(fs.refused)
        await again.advance(25_000)
        end_shortage(again)
        await model.check()
        await again.stop()
        return refused

    place = first_place(times)
    while asyncio.run(start(place)):
        place += EVERY
    assert place > 10
