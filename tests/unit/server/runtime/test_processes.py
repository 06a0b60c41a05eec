"""Work in processes of their own, started for real."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kavka.log.compaction.run import compact
from kavka.log.errors import CorruptLogError
from kavka.log.fs import OsFs
from kavka.log.partition_log import PartitionLog
from kavka.seams import ProcessLost
from kavka.server.runtime.jobs import ThreadJobs
from kavka.server.runtime.processes import Processes
from support import logs
from support.asynchronous import ran_by
from support.compaction import order
from support.wait import eventually

WITHIN_S = 60.0


def run(work: Callable[[Processes], Any]) -> Any:
    async def main() -> Any:
        processes = Processes(asyncio.get_running_loop())
        try:
            return await asyncio.wait_for(work(processes), WITHIN_S)
        finally:
            await processes.kill()

    return asyncio.run(main())


with_processes = ran_by(run)


def a_log(home: Path) -> PartitionLog:
    """One with something to compact, in real files."""
    settings = logs.settings(cleanup_policy=("compact",), segment_bytes=50_000)
    log = logs.Broker(OsFs(), str(home), log_settings=settings).log()
    for number in range(400):
        logs.append(log, logs.batch([b"%0500d" % number], keys=[b"%d" % (number % 7)]))
    return log


def slow(home: Path) -> Any:
    """An order that takes long: its I/O is limited to a byte a second."""
    compaction_order = order(a_log(home))
    return replace(compaction_order, limits=replace(compaction_order.limits, bytes_per_s=1.0))


def test_results_and_news_come_back(tmp_path: Path) -> None:
    compaction_order = order(a_log(tmp_path))
    messages: list[Any] = []

    async def work(processes: Processes) -> Any:
        return await processes.run(compact, (OsFs(), compaction_order), messages.append)

    outcome = run(work)
    assert outcome.end_offset == compaction_order.end_offset
    assert {base for replacement in messages for base in replacement.old} == {
        base for base, _ in compaction_order.segments
    }


def test_failures_come_back(tmp_path: Path) -> None:
    compaction_order = order(a_log(tmp_path))
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(b"\x00" * path.stat().st_size)

    async def work(processes: Processes) -> Any:
        return await processes.run(compact, (OsFs(), compaction_order), print)

    with pytest.raises(CorruptLogError) as caught:
        run(work)
    assert caught.value.path == str(path)


def test_failures_that_can_t_be_pickled_are_reported() -> None:
    async def work(processes: Processes) -> Any:
        return await processes.run(math.sqrt, (), print)

    with pytest.raises(TypeError):
        run(work)

    async def unpicklable(processes: Processes) -> Any:
        return await processes.run(memoryview, (), print)  # of a worker: its error is plain

    with pytest.raises(TypeError, match="bytes-like"):
        run(unpicklable)


@with_processes
async def test_cancelling_kills_it(
    processes: Processes, /, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    compaction_order = slow(tmp_path)
    job = processes.run(compact, (OsFs(), compaction_order), print)
    pid = await child_of(processes)
    assert b"\0PYTHONHASHSEED=random\0" in Path(f"/proc/{pid}/environ").read_bytes()
    job.cancel()
    await gone(pid)
    assert job.cancelled()


@with_processes
async def test_one_that_dies_is_lost(processes: Processes, /, tmp_path: Path) -> None:
    compaction_order = slow(tmp_path)
    job = processes.run(compact, (OsFs(), compaction_order), print)
    os.kill(await child_of(processes), signal.SIGKILL)
    with pytest.raises(ProcessLost):
        await job


def test_one_that_can_t_be_started_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the disk that has failed: that would cost a directory of logs."""

    def no_more(*_: Any, **__: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", no_more)

    async def work(processes: Processes) -> Any:
        return await processes.run(math.sqrt, (), print)

    with pytest.raises(ProcessLost, match="could not be started"):
        run(work)


def test_a_request_may_be_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the end of the process, which writes more than a pipe takes at once."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nprintf '\\200\\004\\225\\377'\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    async def work(processes: Processes) -> Any:
        return await processes.run(math.sqrt, (), print)

    with pytest.raises(ProcessLost, match="without a result"):
        run(work)


def test_one_that_reads_no_order_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is longer than a pipe, and its reader ends before."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec true\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    async def work(processes: Processes) -> Any:
        return await processes.run(len, (bytes(1 << 20),), print)

    with pytest.raises(ProcessLost, match="without a result"):
        run(work)


def test_modules_lying_about_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction_order = order(a_log(tmp_path))
    for name in ("kavka", "pickle", "wire"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)

    async def work(processes: Processes) -> Any:
        return await processes.run(compact, (OsFs(), compaction_order), lambda _: None)

    assert run(work).end_offset == compaction_order.end_offset


@with_processes
async def test_the_end_of_all_ends_each_and_begins_none(
    processes: Processes, /, tmp_path: Path
) -> None:
    compaction_order = slow(tmp_path)
    jobs = [processes.run(compact, (OsFs(), compaction_order), print) for _ in range(2)]
    pid = await child_of(processes)
    await processes.kill()
    await gone(pid)
    assert all(job.cancelled() for job in jobs)
    assert processes.run(compact, (OsFs(), compaction_order), print).cancelled()


async def test_jobs_close_ends_them_too(tmp_path: Path) -> None:
    compaction_order = slow(tmp_path)
    jobs = ThreadJobs(asyncio.get_running_loop())
    job = jobs.run_process(compact, OsFs(), compaction_order, on_message=print)
    await asyncio.sleep(0)
    await asyncio.wait_for(jobs.close(), WITHIN_S)
    assert job.cancelled()


@with_processes
async def test_close_waits_until_killed_processes_have_ended(
    processes: Processes, /, tmp_path: Path
) -> None:
    """They may be at work in the same directory."""
    compaction_order = slow(tmp_path)
    first = processes.run(compact, (OsFs(), compaction_order), print)
    pid = await child_of(processes)
    first.cancel()
    second = processes.run(math.hypot, (), print)
    with pytest.raises(TypeError):
        await second
    await gone(pid)


async def child_of(processes: Processes) -> int:
    """The id of the first process, once it works."""
    (first, *_) = processes._running

    def pid() -> int:
        child = first._child
        return 0 if child is None else child.pid

    return await asyncio.to_thread(eventually, pid, within_s=WITHIN_S, what="a process begins")


async def gone(pid: int) -> None:
    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await asyncio.to_thread(eventually, is_gone, within_s=WITHIN_S, what="the process ends")
