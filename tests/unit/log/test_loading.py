"""The start's way from directories to logs, step by step as threads take them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from kavka.log import loading
from kavka.log.disk import Disk
from kavka.log.errors import StorageError
from kavka.log.fs import OsFs
from kavka.log.loading import DirectoryLoading
from kavka.log.log_dir import LogDirectory
from kavka.log.manager import LogManager
from kavka.log.memfs import Fault, MemFs
from kavka.log.partition_log import PartitionLog
from support import logs
from support.logs import TOPIC_ID, Producer
from support.virtual import VirtualClock

LOGS = 12


def manager(fs: MemFs | OsFs, *directories: str) -> LogManager:
    log_manager = LogManager(fs, directories, clock=VirtualClock(), random=random.Random(0))
    log_manager.open()
    return log_manager


def filled(fs: MemFs | OsFs, *directories: str) -> LogManager:
    """A manager with LOGS logs of `index + 3` records each."""
    log_manager = manager(fs, *directories)
    logs.load_all(log_manager, lambda topic: logs.settings())
    for index in range(LOGS):
        logs.fill(log_manager.create("t", index, TOPIC_ID, logs.settings()), index + 3)
    return log_manager


@pytest.fixture
def loadings() -> Iterator[list[DirectoryLoading]]:
    """Those of two directories after a SIGKILL."""
    fs = MemFs()
    filled(fs, "/a", "/b")
    fs.kill()
    yield manager(fs, "/a", "/b").loadings(lambda topic: logs.settings())


def test_long_recoveries_are_left_for_several_threads(
    loadings: list[DirectoryLoading], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_bytes = len(logs.batch([b"0" * 100]))
    monkeypatch.setattr(loading, "QUICK_BYTES_MAX", 7 * batch_bytes)
    for dir_loading in loadings:
        dir_loading.prepare()
        assert len(dir_loading.keys) == LOGS // 2 and not dir_loading.is_clean
        dir_loading.load_most()
        assert [log.end_offset for log in dir_loading.loaded] == [
            index + 3 for _, index in dir_loading.keys if index + 3 <= 7
        ]
        assert dir_loading.left == LOGS // 2 - len(dir_loading.loaded)
        dir_loading.load_rest()
        assert (dir_loading.left, len(dir_loading.loaded)) == (0, LOGS // 2)
        dir_loading.load_rest()
        assert len(dir_loading.loaded) == LOGS // 2, "another thread comes too late"


def test_cleanly_closed_logs_are_loaded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "QUICK_BYTES_MAX", 0)
    fs = MemFs()
    filled(fs, "/a").close()
    (dir_loading,) = manager(fs, "/a").loadings(lambda topic: logs.settings())
    dir_loading.prepare()
    dir_loading.load_most()
    assert (dir_loading.is_clean, dir_loading.left, len(dir_loading.loaded)) == (True, 0, LOGS)


def test_a_start_that_is_given_up(loadings: list[DirectoryLoading]) -> None:
    for dir_loading in loadings:
        dir_loading.prepare()
        dir_loading.cancelled = True
        dir_loading.load_most()
        assert not dir_loading.loaded


class StoppedAt(DirectoryLoading):
    """One that is given up just before it reads from a log for the `at`th time."""

    at = 1 << 30

    def _watch(self) -> None:
        self.at -= 1
        if self.at < 0:
            self.cancelled = True
        super()._watch()


def content(fs: MemFs, log: PartitionLog) -> tuple[object, ...]:
    """All that a reader or a producer can learn of a log."""
    return (
        log.end_offset,
        logs.read_from(log, 0),
        logs.aborted_entries(fs, log),
        {state.producer_id: state.last_sequence for state in log.producers},
    )


def with_transactions(*, clean: bool) -> tuple[MemFs, tuple[object, ...]]:
    """A disk with a log of several segments and aborted transactions, whose first transaction
    index was damaged afterwards; and its content."""
    fs = MemFs()
    broker = logs.Broker(fs, "/a", log_settings=logs.settings(segment_bytes=600))
    log = broker.log()
    for number in range(8):
        producer = Producer(number % 3, 0, number // 3)
        logs.append(log, logs.batch([b"%d" % number], producer=producer, transactional=True))
        logs.end_transaction(log, producer, commit=number % 4 == 0)
    logs.flush(log)
    broker.logs.checkpoint(None).run()
    logs.fill(log, 5)
    before = content(fs, log)
    if clean:
        broker.logs.close()
    fs.kill()
    index = fs.open("/a/t-0/00000000000000000000.txnindex")
    index.truncate(index.size() - 1)
    return fs, before


@pytest.mark.parametrize("clean", [True, False])
def test_a_loading_cancelled_at_any_read_loses_nothing(clean: bool) -> None:
    at = -1
    cancelled = True
    while cancelled:
        at += 1
        fs, before = with_transactions(clean=clean)
        dir_loading = StoppedAt(
            LogDirectory(fs, "/a"),
            Disk(fs, open_files_max=5, index_cache_bytes=1000),
            lambda topic: logs.settings(segment_bytes=600),
            0,
        )
        dir_loading.at = at
        for step in (dir_loading.prepare, dir_loading.load_most, dir_loading.load_rest):
            step()
        assert len(dir_loading.loaded) == (not dir_loading.cancelled)
        assert not fs.exists("/a/.kafka_cleanshutdown"), "what is half done is not trusted"
        fs.kill()
        again = logs.Broker(fs, "/a", log_settings=logs.settings(segment_bytes=600))
        assert content(fs, again.log()) == before, f"given up at read {at}"
        cancelled = dir_loading.cancelled
    assert at > 5


def test_a_directory_that_fails_half_way() -> None:
    fs = MemFs()
    filled(fs, "/a", "/b").close()
    log_manager = manager(fs, "/a", "/b")
    fs.faults = [Fault("pread", "/b/t-7/00000000000000000000.log")]
    logs.load_all(log_manager, lambda topic: logs.settings())
    assert list(log_manager.failed_directories) == ["/b"]
    assert [log.directory for log in log_manager] == [
        f"/a/t-{index}" for index in (0, 10, 2, 4, 6, 8)
    ]


def test_a_log_that_can_not_be_served_is_reported_by_its_file() -> None:
    fs = MemFs()
    log_manager = filled(fs, "/a")
    log = log_manager.get("t", 5)
    assert log is not None
    log.roll(0)
    logs.fill(log, 1)
    log_manager.close()
    fs.open("/a/t-5/00000000000000000000.log").pwrite(bytes(30), 0)
    # which records are aborted can't be found out
    fs.create("/a/t-5/00000000000000000000.txnindex").pwrite(bytes(34), 0)
    (dir_loading,) = manager(fs, "/a").loadings(lambda topic: logs.settings())
    dir_loading.prepare()
    with pytest.raises(StorageError, match="/a/t-5/00000000000000000000.log has no batch"):
        dir_loading.load_most()


def test_threads_load_each_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real file system, and many at a time."""
    fs = OsFs()
    filled(fs, str(tmp_path / "a"), str(tmp_path / "b")).abandon()
    monkeypatch.setattr(loading, "QUICK_BYTES_MAX", 0)
    log_manager = manager(fs, str(tmp_path / "a"), str(tmp_path / "b"))
    loadings = log_manager.loadings(lambda topic: logs.settings())
    for dir_loading in loadings:
        dir_loading.prepare()
        dir_loading.load_most()
        assert dir_loading.left == LOGS // 2
    threads = [Thread(target=dir_loading.load_rest) for dir_loading in loadings for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for dir_loading in loadings:
        for _ in log_manager.take_over(dir_loading):
            pass
    assert sorted((log.partition, log.end_offset) for log in log_manager) == [
        (index, index + 3) for index in range(LOGS)
    ]
    for log in log_manager:
        logs.fill(log, 2, start=log.partition + 3)
        assert len(logs.read_from(log)) == log.partition + 5
    log_manager.abandon()
