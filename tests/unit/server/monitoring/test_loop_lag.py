"""The lag is what a timer comes too late."""

from __future__ import annotations

import pytest

from kavka.server.monitoring.loop_lag import PERIOD_S, LoopLag
from support.virtual import VirtualClock, VirtualTasks


async def test_it_is_measured_until_it_is_stopped() -> None:
    clock = VirtualClock()
    tasks = VirtualTasks(clock)
    lag = LoopLag(clock, tasks)
    await tasks.advance(1000)
    assert lag.histogram.count == 0, "it is not started"
    lag.start()
    await tasks.advance(1000)
    assert lag.histogram.count == round(1 / PERIOD_S)
    assert lag.last_ms == pytest.approx(0, abs=1e-6)
    clock.elapsed_ms += PERIOD_S * 1000 + 40  # the loop did something else
    await tasks.advance(0)
    assert lag.last_ms == pytest.approx(40)
    await tasks.advance(PERIOD_S * 1000)
    assert lag.last_ms == pytest.approx(0, abs=1e-6)
    assert lag.histogram.maximum == pytest.approx(40)
    count = lag.histogram.count
    lag.stop()
    await tasks.advance(1000)
    assert lag.histogram.count == count
    assert tasks.pending_timers == 0
