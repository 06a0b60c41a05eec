"""A disk and a clock fail as asked, and no longer."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_faults.broken_fs import BrokenClock, BrokenFs, broken_fs
from cluster_faults.control import READS, SYNCS, WRITES, Control
from kavka.server.runtime.clock import SystemClock

HOUR_MS = 3_600_000
SILENT_S = 0.2
WITHIN_S = 60.0


class Disk:
    """One, and who says how it fails: of another process, as it were."""

    def __init__(self, home: Path) -> None:
        self.control = Control(str(home / "control"))
        self.fs: BrokenFs = broken_fs(self.control.path, str(home / "synced"))
        self.path = str(home / "a")
        self.file = self.fs.create(self.path)
        self.file.pwrite(b"content", 0)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


STEPS: dict[int, list[Callable[[Disk], object]]] = {
    WRITES: [
        lambda disk: disk.file.pwrite(b"x", 0),
        lambda disk: disk.file.truncate(1),
        lambda disk: disk.fs.create(disk.path),
        lambda disk: disk.fs.rename(disk.path, disk.path),
        lambda disk: disk.fs.remove(disk.path),
        lambda disk: disk.fs.remove_tree(disk.path),
        lambda disk: disk.fs.write_atomic(disk.path, b"x", sync=False),
    ],
    READS: [
        lambda disk: disk.file.pread(1, 0),
        lambda disk: disk.file.read_into(memoryview(bytearray(1)), 0),
        lambda disk: disk.file.read_cached(memoryview(bytearray(1)), 0),
        lambda disk: disk.fs.read_bytes(disk.path),
    ],
    SYNCS: [
        lambda disk: disk.file.sync(),
        lambda disk: disk.fs.sync_file(disk.path),
        lambda disk: disk.fs.sync_dir(str(Path(disk.path).parent)),
    ],
}


@pytest.mark.parametrize("failing", STEPS)
def test_what_fails_fails_and_nothing_else(disk: Disk, failing: int) -> None:
    disk.control.failing = failing
    for step in STEPS[failing]:
        with pytest.raises(OSError) as raised:
            step(disk)
        assert raised.value.errno == errno.EIO
    others = READS if failing == WRITES else WRITES
    STEPS[others][0](disk)
    disk.control.heal()
    STEPS[failing][0](disk)


def test_an_fsync_is_stuck_until_it_heals(disk: Disk) -> None:
    disk.control.sync_ms = HOUR_MS
    thread = threading.Thread(target=disk.file.sync, daemon=True)
    thread.start()
    thread.join(SILENT_S)
    assert thread.is_alive()
    disk.control.heal()
    thread.join(WITHIN_S)
    assert not thread.is_alive()


def test_a_clock_is_wrong_until_it_heals(disk: Disk) -> None:
    clock, right = BrokenClock(disk.control), SystemClock()
    for skew_ms in (HOUR_MS, -HOUR_MS):
        disk.control.skew_ms = skew_ms
        before, found, after = right.now_ms(), clock.now_ms(), right.now_ms()
        assert before <= found - skew_ms <= after
        assert clock.monotonic_s() <= right.monotonic_s()
    disk.control.heal()
    assert right.now_ms() <= clock.now_ms() <= right.now_ms()
