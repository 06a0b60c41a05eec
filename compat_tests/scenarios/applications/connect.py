"""Kafka Connect: lines of a file, through a topic, to another file; none lost, none doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Partition
from kavka.compat_tests.scenario import Scenario, Trial, becomes, equal
from kavka.compat_tests.scenarios.applications.connect_workers import (
    CHANGED_S,
    RUNNING,
    Workers,
)
from kavka.compat_tests.scenarios.applications.meanwhile import meanwhile

PART: Final = 100
"""Lines."""

AT_ONCE: Final = 5
PACE_S: Final = 0.05
BEFORE_KILL: Final = 50
"""Lines that arrive while more are written, before a worker is killed."""

POLL_MS: Final = 200
POLL_RECORDS: Final = 100
QUIET_MS: Final = 2_500
"""A source looks for new lines each second."""


class Lines:
    """The file that is read, the topic that its lines go to, and the file that is written."""

    def __init__(self, trial: Trial, directory: Path) -> None:
        self._trial = trial
        self._directory = directory
        self._source = directory / "source"
        self._topic = ""
        self._written: list[str] = []
        self._found: list[str] = []

    async def prepare(self) -> None:
        """Create the topic, and a reader of it."""
        self._topic = await self._trial.topic()
        self._reader = await self._trial.reference()
        await self._reader.ask("consumer", isolation="read_committed")
        await self._reader.assign({Partition(self._topic, 0): 0})

    def source(self) -> dict[str, str]:
        """The connector that reads the file."""
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self._source),
            "topic": self._topic,
            "exactly.once.support": "required",
        }

    def sink(self, name: str) -> dict[str, str]:
        """A connector that writes a file of this name."""
        return {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self._directory / name),
            "topics": self._topic,
        }

    def append(self, count: int = PART) -> None:
        """Write lines, all of one length, so that none can be a part of another."""
        first = len(self._written)
        lines = [f"line {number:06}" for number in range(first, first + count)]
        with self._source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._written += lines

    async def arrive(
        self, count: int | None = None, is_well: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Wait until so many lines, or all, are in the topic: each once, in their order. `is_well`
        says why they do not come, if the source has failed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CHANGED_S
        while len(self._found) < (len(self._written) if count is None else count):
            if loop.time() > until:
                if is_well is not None:
                    await is_well()
                raise Mismatch(f"{len(self._found)} of {len(self._written)} lines are in the topic")
            await self.take(POLL_MS)

    async def take(self, within_ms: int) -> int:
        """Read what is in the topic now: how many lines are new."""
        before = len(self._found)
        records = await self._reader.poll(POLL_RECORDS, within_ms)
        self._found += [(record.value or b"").decode() for record in records]
        expected = self._written[: len(self._found)]
        for number, (line, other) in enumerate(zip(self._found, expected, strict=False)):
            equal(line, other, f"line {number} of the topic")
        equal(len(self._found), len(expected), "lines in the topic")
        return len(self._found) - before

    async def append_some(self) -> None:
        """Write a few lines, at a pace at which they are read."""
        self.append(AT_ONCE)
        await asyncio.sleep(PACE_S)

    async def copied(self, name: str) -> None:
        """Wait until the file of this name has the lines, and no others."""

        async def is_copied() -> bool:
            return self._read(name).splitlines() == self._written

        await becomes(is_copied, True, f"whether {name} is a copy", CHANGED_S)

    async def all_in(self, name: str) -> None:
        """Wait until the file of this name has all the lines, some perhaps twice: a sink that was
        killed writes again what it has not committed."""

        async def missing() -> list[str]:
            text = self._read(name)
            return [line for line in self._written if line not in text][:3]

        await becomes(missing, [], f"lines that {name} lacks", CHANGED_S)

    def _read(self, name: str) -> str:
        file = self._directory / name
        return file.read_text() if file.exists() else ""

    @property
    def arrived(self) -> int:
        """Lines that were found in the topic."""
        return len(self._found)


async def run_files(trial: Trial) -> None:
    with TemporaryDirectory(prefix="kavka-compat-connect-") as directory:
        workers, lines = Workers(trial), Lines(trial, Path(directory))
        await lines.prepare()
        source, sink, another = (trial.name(name) for name in ("source", "sink", "sink"))
        with trial.step("start a worker", "FindCoordinator", "CreateTopics", "JoinGroup"):
            await workers.start()
        with trial.step("copy a file through a topic", "InitProducerId", "EndTxn", "Fetch"):
            lines.append()
            await workers.run(source, lines.source())
            await workers.run(sink, lines.sink("copy"))
            await lines.arrive()
            await lines.copied("copy")
        with trial.step("pause the source and resume it", "Produce", "Fetch"):
            await workers.ask("PUT", f"/connectors/{source}/pause")
            await workers.become(source, ("PAUSED", "PAUSED"))
            lines.append()
            equal(await lines.take(QUIET_MS), 0, "lines that arrived meanwhile")
            await workers.ask("PUT", f"/connectors/{source}/resume")
            await lines.arrive()
            await lines.copied("copy")
        with trial.step("make the source anew, which goes on from its offset", "InitProducerId"):
            await workers.ask("DELETE", f"/connectors/{source}")
            await workers.become(source, ())
            lines.append()
            await workers.run(source, lines.source())
            await lines.arrive()
            await lines.copied("copy")
        await _fail_over(trial, workers, lines, source, sink)
        with trial.step("copy the topic once more", "JoinGroup", "Fetch", "OffsetCommit"):
            await workers.run(another, lines.sink("another copy"))
            await lines.copied("another copy")
            equal(await lines.take(QUIET_MS), 0, "further lines")
            await workers.stop()


async def _fail_over(trial: Trial, workers: Workers, lines: Lines, source: str, sink: str) -> None:
    with trial.step("share the work with a second worker", "JoinGroup", "SyncGroup"):
        await workers.start()

        async def used() -> int:
            return len(set(await workers.places(source, sink)))

        await becomes(used, 2, "workers that have tasks", CHANGED_S)
    with trial.step("kill the source's in the middle", "Heartbeat", "InitProducerId", "EndTxn"):
        (worker,) = await workers.places(source)
        async with meanwhile(lines.append_some):
            await lines.arrive(lines.arrived + BEFORE_KILL)
            await workers.kill(worker)
        lines.append()
        await lines.arrive()
        await workers.become(source, RUNNING)
        await lines.all_in("copy")


async def run_restart(trial: Trial) -> None:
    with TemporaryDirectory(prefix="kavka-compat-connect-") as directory:
        workers, lines = Workers(trial), Lines(trial, Path(directory))
        await lines.prepare()
        source, sink = trial.name("source"), trial.name("sink")
        await workers.start()
        with trial.step("copy a file through a topic", "InitProducerId", "EndTxn", "Fetch"):
            await workers.run(source, lines.source())
            await workers.run(sink, lines.sink("copy"))
            lines.append()
            await lines.copied("copy")
        with trial.step("restart the broker"):
            assert trial.broker.restart is not None
            async with meanwhile(lines.append_some):
                await lines.arrive(PART + BEFORE_KILL)
                await trial.broker.restart()
        with trial.step("copy the rest", "JoinGroup", "InitProducerId", "EndTxn", "Fetch"):
            lines.append()
            await lines.arrive(is_well=partial(workers.become, source, RUNNING))
            await lines.all_in("copy")
            await workers.become(sink, RUNNING)
            await workers.stop()


NAME: Final = "kafka-connect"
ALL: Final = (
    Scenario(
        "file-connectors",
        "Lines of a file come to another once, though connectors and workers change",
        run_files,
        only=NAME,
    ),
    Scenario(
        "file-connectors-restart",
        "Lines of a file go on to come to another when the broker restarts",
        run_restart,
        only=NAME,
        controls=True,
    ),
)
