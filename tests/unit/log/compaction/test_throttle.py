"""A limit on I/O, by a clock that advances only during sleeps."""

from __future__ import annotations

from kavka.log.compaction.throttle import NAP_S, Throttle
from support.virtual import InlineWorker


def test_the_average_stays_at_the_limit() -> None:
    worker = InlineWorker(print)
    throttle = Throttle(1000.0, worker)
    for _ in range(500):
        throttle.spend(37)
        assert worker.now_s >= 37 * _ / 1000 - NAP_S
    assert 500 * 37 / 1000 - NAP_S <= worker.now_s <= 500 * 37 / 1000
    assert abs(throttle.waited_s - worker.now_s) < 1e-6


def test_work_slower_than_the_limit_is_not_delayed() -> None:
    worker = InlineWorker(print)
    throttle = Throttle(1000.0, worker)
    for _ in range(10):
        worker.now_s += 1
        throttle.spend(999)
    assert (worker.now_s, throttle.waited_s) == (10, 0)


def test_short_waits_are_saved_up() -> None:
    worker = InlineWorker(print)
    throttle = Throttle(1000.0, worker)
    throttle.spend(50)
    assert worker.now_s == 0
    throttle.spend(60)
    assert abs(worker.now_s - 0.11) < 1e-9


def test_no_limit_is_none() -> None:
    worker = InlineWorker(print)
    Throttle(1.7976931348623157e308, worker).spend(1 << 60)
    assert worker.now_s == 0
