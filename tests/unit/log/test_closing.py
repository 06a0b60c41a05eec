"""Closing many logs in portions."""

from __future__ import annotations

import random

import pytest

from kavka.log import closing
from kavka.log.manager import LogManager
from kavka.log.memfs import Fault, MemFs
from support import logs
from support.logs import TOPIC_ID
from support.virtual import VirtualClock

LOGS = 5


class Counting(MemFs):
    """Remembers which directories were fsynced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)
        super().sync_dir(path)


def start(fs: MemFs) -> LogManager:
    log_manager = LogManager(fs, ["/a"], clock=VirtualClock(), random=random.Random(0))
    log_manager.open()
    logs.load_all(log_manager, lambda topic: logs.settings())
    return log_manager


def filled(fs: MemFs) -> LogManager:
    log_manager = start(fs)
    for index in range(LOGS):
        logs.fill(log_manager.create("t", index, TOPIC_ID, logs.settings()), 3)
    return log_manager


def test_each_directory_is_synced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "LOGS_AT_ONCE", 2)
    fs = Counting()
    log_manager = filled(fs)
    fs.synced.clear()
    (dir_closing,) = log_manager.closings()
    portions = 0
    for _ in dir_closing.parts():
        portions += 1
        for _ in range(3):  # threads that find nothing left
            dir_closing.sync()
        dir_closing.finish()
    assert portions == 4, "two, two, one, and the log directory"
    assert fs.synced == [*(f"/a/t-{index}" for index in range(LOGS)), "/a"]
    assert all(log.recovery_point == 3 for log in log_manager)
    fs.crash()
    assert [log.end_offset for log in start(fs)] == [3] * LOGS


def test_untouched_logs_are_not_synced() -> None:
    fs = Counting()
    filled(fs).close()
    log_manager = start(fs)
    fs.synced.clear()
    fs.faults = [Fault("open", times=99), Fault("create", times=99)]
    (dir_closing,) = log_manager.closings()
    for _ in dir_closing.parts():
        dir_closing.sync()
        dir_closing.finish()
    assert fs.synced == ["/a"]


@pytest.mark.parametrize(("op", "suffix"), [("sync", ".log"), ("sync_dir", "t-3"), ("pwrite", "")])
def test_a_failure_leaves_no_marker(op: str, suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    fs = MemFs()
    log_manager = filled(fs)
    fs.faults = [Fault(op, suffix)]
    log_manager.close()
    assert "clean close of " in caplog.text
    assert not fs.exists("/a/.kafka_cleanshutdown")
    fs.kill()
    assert [log.end_offset for log in start(fs)] == [3] * LOGS


def test_few_files_are_open_for_it() -> None:
    fs = MemFs()
    log_manager = filled(fs)
    log_manager.files_at_once = 2
    (dir_closing,) = log_manager.closings()
    assert sum(1 for _ in dir_closing.parts()) == 4, "two, two, one, and the log directory"


def test_a_log_that_is_damaged_is_closed_like_the_others() -> None:
    fs = MemFs()
    log_manager = filled(fs)
    log = log_manager.get("t", 2)
    assert log is not None
    log.roll(0)
    log.release()  # as if others had been used since
    fs.remove("/a/t-2/00000000000000000000.index")
    fs.open("/a/t-2/00000000000000000000.log").pwrite(bytes(30), 0)
    log_manager.close()
    assert fs.exists("/a/.kafka_cleanshutdown")
    assert [log.end_offset for log in start(fs)] == [3] * LOGS, "readers come upon the damage"
