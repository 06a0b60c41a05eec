"""What is reported of this process, beside what the standard library reports."""

from __future__ import annotations

import mmap
import os
import resource
import time
from pathlib import Path

import pytest

from kavka.log.fs import OsFs
from kavka.log.memfs import MemFs
from kavka.server.monitoring.process_usage import usage

TICK_S = 0.01


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc")
def test_it_is_what_others_see(tmp_path: Path) -> None:
    before = usage(OsFs())
    began_s = time.process_time()
    with (tmp_path / "one").open("wb") as held:
        held.write(bytes(1 << 20))
        held.flush()
        os.fsync(held.fileno())
        while time.process_time() < began_s + 0.05:
            pass
        ballast = mmap.mmap(-1, 32 << 20)  # of its own: memory may come from what was let go
        after = usage(OsFs())
        cpu_s = time.process_time()
    assert before is not None
    assert after is not None
    assert after.cpu_s == pytest.approx(cpu_s, abs=3 * TICK_S)
    assert after.cpu_s > before.cpu_s
    assert after.open_files == before.open_files + 1
    assert after.open_files_max == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert after.virtual_bytes >= before.virtual_bytes + len(ballast) - (1 << 20)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 1 << 20 < after.resident_bytes <= peak_bytes + (1 << 20)
    assert after.disk_write_bytes - before.disk_write_bytes >= 0
    assert after.disk_read_bytes >= before.disk_read_bytes


def test_without_proc_nothing_is_reported() -> None:
    assert usage(MemFs()) is None


def test_no_limit_is_infinite() -> None:
    class Unlimited(OsFs):
        def read_bytes(self, path: str) -> bytes:
            if path != "/proc/self/limits":
                return super().read_bytes(path)
            return (
                b"Limit                     Soft Limit           Hard Limit           Units\n"
                + (b"Max open files            unlimited            unlimited            files\n")
            )

    notified = usage(Unlimited())
    assert notified is None or notified.open_files_max == float("inf")
