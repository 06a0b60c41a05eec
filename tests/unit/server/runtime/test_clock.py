"""The machine's clock: only what must be true of any."""

from __future__ import annotations

import time

from kavka.server.runtime.clock import SystemClock, process_age_ms


def test_the_wall_clock_is_in_milliseconds() -> None:
    before = time.time()
    now_ms = SystemClock().now_ms()
    after = time.time()
    assert isinstance(now_ms, int)
    assert int(before * 1000) <= now_ms <= after * 1000


def test_the_other_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.monotonic_s() for _ in range(1000)]
    assert times == sorted(times)
    assert abs(times[0] - time.monotonic()) < 60


def test_a_process_has_an_age() -> None:
    first = process_age_ms()
    assert 0 < first < 24 * 3600 * 1000
    assert process_age_ms() >= first
