"""Kafka Streams: words counted exactly once, whatever happens to those that count."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Partition, Record, partitions_from_json
from kavka.compat_tests.scenario import Scenario, Trial, becomes, equal, shown, stored
from kavka.compat_tests.scenarios.applications.meanwhile import meanwhile

PARTITIONS: Final = 4
WORDS: Final = (
    "and",
    "broker",
    "commit",
    "crash",
    "fetch",
    "log",
    "once",
    "read",
    "topic",
    "write",
)
LINE_WORDS: Final = 5
SENT_AT_ONCE: Final = 10
"""Lines: many transactions are needed for a part."""

PART_LINES: Final = 200
BEFORE_KILL: Final = 200
"""Words that are counted while more are written, before an instance is killed."""

QUICK: Final = {
    "commit_interval_ms": 200,
    "session_timeout_ms": 6_000,  # the least that brokers allow by default
    "heartbeat_ms": 500,
    "transaction_timeout_ms": 5_000,
}
"""Settings with which an instance that was killed is soon replaced."""

STOP_MS: Final = 30_000
COUNTED_S: Final = 120.0
"""How long it may take until everything is counted, after a crash too: until the session and the
transaction of the dead have ended, and the counts are restored."""

POLL_MS: Final = 200
POLL_RECORDS: Final = 100
QUIET_MS: Final = 1_500


class WordCount:
    """The application, what goes into it, and what must come out."""

    def __init__(self, trial: Trial, directory: Path) -> None:
        self._trial = trial
        self._directory = directory
        self._application_id = trial.name("streams")
        self._input = ""
        self._output = ""
        self._random = random.Random(1)
        self._sent: Counter[str] = Counter()
        self._found: dict[str, list[int]] = {}
        self._instances = 0

    async def prepare(self) -> None:
        """Create the topics, and a writer and a reader of them."""
        self._input = await self._trial.topic(PARTITIONS)
        self._output = await self._trial.topic(PARTITIONS)
        self._writer = await self._trial.reference()
        await self._writer.ask("producer", acks="all", idempotent=True)
        self._reader = await self._trial.reference()
        await self._reader.ask("consumer", isolation="read_committed")
        await self._reader.assign(
            {Partition(self._output, index): 0 for index in range(PARTITIONS)}
        )

    async def start(self) -> Driver:
        """One more instance, with an empty directory of its own."""
        self._instances += 1
        instance = await self._trial.driver()
        await instance.ask(
            "start",
            application_id=self._application_id,
            input=self._input,
            output=self._output,
            state_dir=str(self._directory / str(self._instances)),
            **QUICK,
        )
        return instance

    async def share(self, *instances: Driver) -> None:
        """Wait until the partitions of the input are shared between these instances."""
        everything = sorted(Partition(self._input, index) for index in range(PARTITIONS))

        async def is_shared() -> bool:
            shares = [await self._processed(instance) for instance in instances]
            return (
                all(shares)
                and sorted(partition for share in shares for partition in share) == everything
            )

        await becomes(is_shared, True, f"whether {len(instances)} share the input", COUNTED_S)

    async def _processed(self, instance: Driver) -> Sequence[Partition]:
        found = await instance.ask("state")
        return [
            partition
            for partition in partitions_from_json(found["partitions"])
            if partition[0] == self._input
        ]

    async def write(self) -> None:
        """Send a part of the lines to all partitions, a few at a time."""
        for _ in range(0, PART_LINES, SENT_AT_ONCE):
            await self._write_some()

    async def _write_some(self) -> None:
        lines = [self._random.choices(WORDS, k=LINE_WORDS) for _ in range(SENT_AT_ONCE)]
        records = [
            Record(" ".join(line).encode(), partition=number % PARTITIONS)
            for number, line in enumerate(lines)
        ]
        await stored(self._writer, self._input, records)
        for line in lines:
            self._sent.update(line)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While lines go on to come, and are counted: so that a transaction is open."""
        async with meanwhile(self._write_some):
            await self.read(self._found_total() + BEFORE_KILL)
            yield

    async def read(self, count: int | None = None) -> None:
        """Read until so many words are counted, or all that were sent."""
        loop = asyncio.get_running_loop()
        until = loop.time() + COUNTED_S
        while self._found_total() < (self._sent.total() if count is None else count):
            if loop.time() > until:
                missing = {
                    word: (len(self._found.get(word, ())), count)
                    for word, count in self._sent.items()
                    if len(self._found.get(word, ())) != count
                }
                raise Mismatch(f"after {COUNTED_S:.0f} s counts (found, sent): {shown(missing)}")
            await self._take(POLL_MS)

    async def check(self) -> None:
        """Each word was counted 1, 2, 3, ..., and no count is behind those that must be there."""
        await self._take(QUIET_MS)
        for word, count in self._sent.items():
            _in_steps(word, self._found.get(word, ()), count)
        equal(sorted(self._found), sorted(self._sent), "words")

    async def _take(self, within_ms: int) -> None:
        for record in await self._reader.poll(POLL_RECORDS, within_ms):
            assert record.key is not None
            assert record.value is not None
            self._found.setdefault(record.key.decode(), []).append(int(record.value))

    def _found_total(self) -> int:
        return sum(map(len, self._found.values()))


def _in_steps(word: str, found: Iterable[int], count: int) -> None:
    """The counts of a word in the order of its partition. Mismatch."""
    counts = list(found)
    for index, seen in enumerate(counts, 1):
        if seen != index:
            near = counts[max(index - 4, 0) : index + 3]
            raise Mismatch(f"count {index} of {word!r} is {seen}: ...{near}...")
    equal(len(counts), count, f"last count of {word!r}")


async def run_word_count(trial: Trial) -> None:
    with TemporaryDirectory(prefix="kavka-compat-streams-") as directory:
        app = WordCount(trial, Path(directory))
        await app.prepare()
        with trial.step("count words", "CreateTopics", "AddOffsetsToTxn", "TxnOffsetCommit"):
            first = await app.start()
            await app.write()
            await app.read()
        with trial.step("share the work with a second instance", "JoinGroup", "SyncGroup"):
            second = await app.start()
            await app.share(first, second)
        with trial.step("kill one in the middle of its work", "Heartbeat", "EndTxn", "OffsetFetch"):
            async with app.at_work():
                await first.kill()
            await app.write()
            await app.read()
        with trial.step("kill the other too, and count on with a new one", "ListOffsets", "Fetch"):
            async with app.at_work():
                await second.kill()
            third = await app.start()
            await app.write()
            await app.read()
        with trial.step("find each occurrence of a word counted once", "Fetch", "EndTxn"):
            await app.check()
            await third.ask("stop", timeout_ms=STOP_MS)


async def run_restart(trial: Trial) -> None:
    with TemporaryDirectory(prefix="kavka-compat-streams-") as directory:
        app = WordCount(trial, Path(directory))
        await app.prepare()
        with trial.step("count words", "CreateTopics", "AddOffsetsToTxn", "TxnOffsetCommit"):
            instance = await app.start()
            await app.write()
            await app.read()
        with trial.step("restart the broker in the middle of it"):
            assert trial.broker.restart is not None
            async with app.at_work():
                await trial.broker.restart()
        with trial.step("count on", "InitProducerId", "Produce", "EndTxn", "JoinGroup"):
            await app.write()
            await app.read()
            await app.check()
            await instance.ask("stop", timeout_ms=STOP_MS)


NAME: Final = "kafka-streams"
ALL: Final = (
    Scenario(
        "word-count",
        "Words are counted exactly once, though instances are killed",
        run_word_count,
        only=NAME,
    ),
    Scenario(
        "word-count-restart",
        "Words are counted exactly once while the broker restarts",
        run_restart,
        only=NAME,
        controls=True,
    ),
)
