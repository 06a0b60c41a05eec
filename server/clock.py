"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """`kavka.seams.Clock` by the operating system."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
