"""Flink: jobs from topic to topic whose checkpoints commit transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.records import Json, Partition, Read, Record
from kavka.compat_tests.scenario import (
    Scenario,
    Trial,
    becomes,
    equal,
    read,
    stored,
)
from kavka.compat_tests.scenarios.applications.committing import committed_are

PARTITIONS: Final = 2
KEYS: Final = 7
RECORDS: Final = 500
"""That are written at once."""

CHECKPOINT_MS: Final = 500
SELDOM_MS: Final = 3_000
"""Between checkpoints of a job that is to be killed before the next."""

FAILS_AFTER: Final = 100
"""Records that are handled after the last checkpoint, in vain, before the job fails."""

WITHIN_MS: Final = 100_000
"""How long the squares of what is there may take: a cluster starts, or a job, and both are slow on
a busy machine."""

QUIET_MS: Final = 1_500
"""How long nothing may come after all that there should be."""

STARTED: Final = ("Metadata", "ListOffsets", "OffsetFetch", "InitProducerId")
COMMITTED: Final = ("Produce", "AddPartitionsToTxn", "EndTxn", "OffsetCommit")
RECOVERED: Final = ("InitProducerId", "EndTxn", "ListTransactions", "DescribeProducers")


def key(number: int) -> bytes:
    return b"key %d" % (number % KEYS)


def numbered(numbers: range) -> list[Record]:
    """Their partitions go by their keys."""
    return [
        Record(b"%s,%d" % (key(number), number), key(number), partition=None) for number in numbers
    ]


def check_squares(found: Sequence[Read], total: int) -> None:
    """Each number once, and those of a key in order."""
    for key_bytes in {key(number) for number in range(KEYS)}:
        expected = [
            b"%s,%d,%d" % (key_bytes, number, number * number)
            for number in range(total)
            if key(number) == key_bytes
        ]
        equal(
            [record.value for record in found if record.key == key_bytes],
            expected,
            f"squares of {key_bytes.decode()}",
        )


class Work(NamedTuple):
    """What a job has in common with those that go on for it."""

    input: str
    output: str
    group: str
    transactional_id_prefix: str
    checkpoints: str
    """The directory where they are kept."""


@contextmanager
def checkpoints() -> Iterator[str]:
    """A directory that may still be written to when it is removed."""
    with TemporaryDirectory(prefix="kavka-compat-", ignore_cleanup_errors=True) as directory:
        yield directory


async def work(trial: Trial, directory: str) -> Work:
    source, sink = await trial.topic(PARTITIONS), await trial.topic(PARTITIONS)
    return Work(source, sink, trial.name("group"), trial.name("transactions"), directory)


async def start(job: Driver, its: Work, **more: Any) -> None:
    settings: Json = {
        **its._asdict(),
        "until": "forever",
        "naming": "INCREMENTING",
        "checkpoint_ms": CHECKPOINT_MS,
    }
    await job.ask("start", **(settings | more))


async def write(trial: Trial, topic: str, numbers: range) -> None:
    producer = await trial.reference()
    await producer.ask("producer", acks="all")
    await stored(producer, topic, numbered(numbers))


async def reader(trial: Trial, topic: str, isolation: str = "read_committed") -> Driver:
    driver = await trial.reference()
    await driver.ask("consumer", isolation=isolation)
    await driver.assign({Partition(topic, index): "earliest" for index in range(PARTITIONS)})
    return driver


async def becomes_status(job: Driver, *, status: str, failures: int) -> None:
    expected = {"status": status, "failures": failures}

    async def ask() -> object:
        return await job.ask("state")

    await becomes(ask, expected, "state of the job", WITHIN_MS / 1000)


async def check_all(trial: Trial, topic: str, total: int) -> None:
    """All squares are there, as whoever comes later reads them, and nothing else follows."""
    squares = await reader(trial, topic)
    found = await read(squares, total, WITHIN_MS)
    check_squares(found + await squares.poll(1, QUIET_MS), total)


async def run_bounded(trial: Trial) -> None:
    with checkpoints() as directory:
        its, job = await work(trial, directory), await trial.driver()
        await write(trial, its.input, range(RECORDS))
        with trial.step("run a job up to the ends of its input", *STARTED, *COMMITTED):
            await start(job, its, until="latest")
            await becomes_status(job, status="FINISHED", failures=0)
        with trial.step("have each square once", "Fetch"):
            await check_all(trial, its.output, RECORDS)


def with_naming(name: str, naming: str, title: str) -> Scenario:
    """A job that fails in the middle. `naming`: how it names its transactions."""

    async def run(trial: Trial) -> None:
        with checkpoints() as directory:
            its, job = await work(trial, directory), await trial.driver()
            await write(trial, its.input, range(RECORDS))
            with trial.step("start a job from topic to topic", *STARTED):
                await start(job, its, naming=naming)
            with trial.step("commit transactions with checkpoints", *COMMITTED):
                squares = await reader(trial, its.output)
                await read(squares, RECORDS, WITHIN_MS)
            with trial.step("fail after records that are not committed", "Produce"):
                await job.ask("fail", records=FAILS_AFTER)
                await write(trial, its.input, range(RECORDS, 2 * RECORDS))
                await becomes_status(job, status="RUNNING", failures=1)
            with trial.step("go on from the last checkpoint", *RECOVERED, *COMMITTED):
                await read(squares, RECORDS, WITHIN_MS)
            with trial.step("go on with new records", *COMMITTED):
                await write(trial, its.input, range(2 * RECORDS, 3 * RECORDS))
                await read(squares, RECORDS, WITHIN_MS)
                await committed_are(trial, its.group, 3 * RECORDS)
            with trial.step("have each square once", "Fetch"):
                await check_all(trial, its.output, 3 * RECORDS)
                await becomes_status(job, status="RUNNING", failures=1)
                await job.ask("cancel")

    return Scenario(name, title, run, only="flink")


async def run_killed(trial: Trial) -> None:
    with checkpoints() as directory:
        its, job = await work(trial, directory), await trial.driver()
        await write(trial, its.input, range(RECORDS))
        with trial.step("start a job from topic to topic", *STARTED, *COMMITTED):
            await start(job, its, checkpoint_ms=SELDOM_MS)
            squares = await reader(trial, its.output)
            await read(squares, RECORDS, WITHIN_MS)
        with trial.step("kill it in the middle of a transaction", "Produce"):
            unfinished = await reader(trial, its.output, "read_uncommitted")
            await read(unfinished, RECORDS, WITHIN_MS)
            await write(trial, its.input, range(RECORDS, 2 * RECORDS))
            await read(unfinished, 1, WITHIN_MS)
            await job.kill()
        with trial.step("go on from its last checkpoint", *RECOVERED, *COMMITTED):
            job = await trial.driver()
            await start(job, its)
            await read(squares, RECORDS, WITHIN_MS)
            await committed_are(trial, its.group, 2 * RECORDS)
        with trial.step("have each square once", "Fetch"):
            await check_all(trial, its.output, 2 * RECORDS)
            await job.ask("cancel")


async def run_restart(trial: Trial) -> None:
    with checkpoints() as directory:
        its, job = await work(trial, directory), await trial.driver()
        await write(trial, its.input, range(RECORDS))
        with trial.step("start a job from topic to topic", *STARTED, *COMMITTED):
            await start(job, its)
            await read(await reader(trial, its.output), RECORDS, WITHIN_MS)
        with trial.step("restart the broker in the middle of a transaction"):
            unfinished = await reader(trial, its.output, "read_uncommitted")
            await read(unfinished, RECORDS, WITHIN_MS)
            await write(trial, its.input, range(RECORDS, 2 * RECORDS))
            await read(unfinished, 1, WITHIN_MS)
            assert trial.broker.restart is not None
            await trial.broker.restart()
        with trial.step("go on, exactly once", *RECOVERED, *COMMITTED, "Fetch"):
            await write(trial, its.input, range(2 * RECORDS, 3 * RECORDS))
            await check_all(trial, its.output, 3 * RECORDS)
            await committed_are(trial, its.group, 3 * RECORDS)
            await becomes_status(job, status="RUNNING", failures=0)
            await job.ask("cancel")


ALL: Final = (
    Scenario("flink-bounded", "A job of Flink to the ends of a topic", run_bounded, only="flink"),
    with_naming("flink-fails", "INCREMENTING", "A job that fails and goes on, exactly once"),
    with_naming(
        "flink-fails-pooling",
        "POOLING",
        "The same with transactional ids that are used again: it finds open ones by listing them",
    ),
    Scenario(
        "flink-killed",
        "A job is killed, and another goes on from its checkpoint, exactly once",
        run_killed,
        only="flink",
    ),
    Scenario(
        "flink-restart",
        "A job goes on when its broker is restarted, exactly once",
        run_restart,
        only="flink",
        controls=True,
    ),
)
