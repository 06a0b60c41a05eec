"""Loading and closing all logs, as a start and a stop do it."""

from __future__ import annotations

import logging
import random

import pytest

from kavka.log import loading as log_loading
from kavka.log.errors import LoadingStopped, StorageError
from kavka.log.manager import LogManager
from kavka.log.memfs import Fault, MemFs
from kavka.server.replica.log_startup import PROGRESS_INTERVAL_S, LogStartup, close_logs
from support import logs
from support.logs import TOPIC_ID
from support.memory_broker import HoldableJobs, LifeTasks
from support.virtual import VirtualClock, run_until_idle

LOGS = 6


class Start:
    """What a start has at hand, on a disk with LOGS logs."""

    def __init__(self, fs: MemFs) -> None:
        self.clock = VirtualClock()
        self.tasks = LifeTasks(self.clock)
        self.jobs = HoldableJobs()
        self.logs = LogManager(fs, ["/a", "/b"], clock=self.clock, random=random.Random(0))
        self.logs.open()

    def loader(self, threads: int = 2) -> LogStartup:
        return LogStartup(
            self.logs,
            lambda topic: logs.settings(),
            threads=threads,
            clock=self.clock,
            tasks=self.tasks,
            jobs=self.jobs,
        )

    async def load(self, threads: int = 2) -> None:
        await self.loader(threads).load()

    async def close(self, threads: int = 2) -> None:
        await close_logs(self.logs, {}, threads=threads, tasks=self.tasks, jobs=self.jobs)

    def ends(self) -> dict[int, int]:
        return {log.partition: log.end_offset for log in self.logs}


WHOLE = {index: index + 1 for index in range(LOGS)}


@pytest.fixture
def fs() -> MemFs:
    """After a kill: partition n has n + 1 records."""
    fs = MemFs()
    log_manager = LogManager(fs, ["/a", "/b"], clock=VirtualClock(), random=random.Random(0))
    log_manager.open()
    logs.load_all(log_manager, lambda topic: logs.settings())
    for index in range(LOGS):
        logs.fill(log_manager.create("t", index, TOPIC_ID, logs.settings()), index + 1)
    fs.kill()
    return fs


async def test_recovery_after_a_crash_and_not_after_a_stop(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_loading, "QUICK_BYTES_MAX", 300)
    start = Start(fs)
    await start.load(threads=2)
    assert start.ends() == WHOLE
    assert start.jobs.done.count("DirectoryLoading.load_rest") == 4, "two for each directory"
    await start.close(threads=2)
    assert fs.exists("/a/.kafka_cleanshutdown") and fs.exists("/b/.kafka_cleanshutdown")
    fs.crash()
    again = Start(fs)
    await again.load()
    assert again.ends() == WHOLE
    assert "DirectoryLoading.load_rest" not in again.jobs.done
    await run_until_idle()
    assert not again.tasks.names, "nothing goes on metadata_of"


async def test_progress_of_loading_is_logged(fs: MemFs, caplog: pytest.LogCaptureFixture) -> None:
    start = Start(fs)
    start.jobs.hold("DirectoryLoading.load_most")
    begun = start.tasks.spawn(start.load(), name="load")
    await run_until_idle()
    with caplog.at_level(logging.INFO):
        await start.tasks.advance(PROGRESS_INTERVAL_S * 1000)
        await run_until_idle()
        start.jobs.release()
        await begun
    lines = [line for line in caplog.messages if "logs in /a" in line]
    assert lines == [
        "loaded 0 of 3 logs in /a, recovering, after 5.0 s",
        "loaded 3 of 3 logs in /a, recovering, after 5.0 s",
    ]


async def test_a_partition_in_two_directories_stops_the_start(fs: MemFs) -> None:
    fs.make_dir("/b/t-0")
    start = Start(fs)
    with pytest.raises(StorageError, match="t-0 is in /a and in /b"):
        await start.load()
    await run_until_idle()
    assert not start.tasks.names


async def test_a_failing_directory_is_left_out(fs: MemFs) -> None:
    start = Start(fs)
    fs.faults = [Fault("pread", "/b/t-3/00000000000000000000.log")]
    await start.load()
    assert start.ends() == {index: index + 1 for index in (0, 2, 4)}
    fs.faults = [Fault("list_dir", "/a"), Fault("list_dir", "/b")]
    with pytest.raises(StorageError, match="none of the log directories"):
        await Start(_killed(fs)).load()


def _killed(fs: MemFs) -> MemFs:
    faults = list(fs.faults)
    fs.kill()
    fs.faults = faults
    return fs


@pytest.mark.parametrize("held", ["prepare", "load_most", "load_rest"])
async def test_an_aborted_start_waits_for_its_threads(
    fs: MemFs, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    monkeypatch.setattr(log_loading, "QUICK_BYTES_MAX", 0)
    start = Start(fs)
    start.jobs.hold(f"DirectoryLoading.{held}")
    loader = start.loader()
    loading = start.tasks.spawn(loader.load(), name="load")
    await run_until_idle()
    loader.give_up()
    await run_until_idle()
    assert start.jobs.held and not loading.done()
    start.jobs.release()
    with pytest.raises(LoadingStopped):
        await loading
    assert not start.ends(), "nothing is served"
    await loader.ended()
    start.logs.unlock()
    await Start(fs).load()
    start.tasks.failures.clear()  # the very one that was awaited
    await run_until_idle()
    assert not start.tasks.names


async def test_a_start_aborted_before_it_begins_runs_no_job(fs: MemFs) -> None:
    start = Start(fs)
    loader = start.loader()
    loader.give_up()
    with pytest.raises(LoadingStopped):
        await loader.load()
    assert not start.jobs.done


async def test_a_cancelled_start_ends_with_its_threads(fs: MemFs) -> None:
    start = Start(fs)
    start.jobs.hold("DirectoryLoading.load_most")
    loader = start.loader()
    loading = start.tasks.spawn(loader.load(), name="load")
    await run_until_idle()
    loading.cancel()
    await run_until_idle()
    assert loading.done()
    ended = start.tasks.spawn(loader.ended(), name="end")
    await run_until_idle()
    assert start.jobs.held and not ended.done()
    start.jobs.release()
    await ended
    assert not start.tasks.names
