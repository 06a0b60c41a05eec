"""The machine's clock."""

from __future__ import annotations

import os
import time


class SystemClock:
    """`kavka.seams.Clock` by the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.monotonic)  # no Python frame: called in every loop iteration


def process_age_ms() -> int:
    """Milliseconds since this process was started, to 10 ms; 0 where that is not known."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            started_ticks = int(stat.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
    started_s = started_ticks / os.sysconf("SC_CLK_TCK")
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1000)
