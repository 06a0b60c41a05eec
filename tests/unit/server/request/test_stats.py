"""Every request is counted, whichever way it goes; times are taken where they should be."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.compat_tests.raw.codec import batches
from kavka.server.request import log as request_log
from kavka.server.request.context import Peer, RequestContext
from kavka.server.request.stats import HOT_PERIOD, ApiStats, RequestStats, Tally
from kavka.wire.apis import fetch, metadata, produce
from support.memory_broker import MemoryBroker, fetching, scenario


class Seconds:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def log_is_off() -> Iterator[None]:
    before = request_log.logger.level
    request_log.logger.setLevel(logging.WARNING)
    yield
    request_log.logger.setLevel(before)


def handle(stats: RequestStats, tally: Tally) -> bool:
    """As `dispatch` does it; whether the request was timed."""
    if request_log.is_on() is not stats.logs:
        stats.follow_log()
    if tally.left:
        tally.left -= 1
        return False
    stats.begin(tally, 0.0)
    return True


@pytest.mark.parametrize("key", [produce.API, fetch.API])
def test_of_frequent_requests_the_first_and_then_one_in_a_period_is_timed(key: Any) -> None:
    stats = RequestStats(Seconds())
    tally = stats.of(key).tallies[4]
    timed = []
    for number in range(3 * HOT_PERIOD + 5):
        if handle(stats, tally):
            timed.append(number)
        assert tally.count == number + 1
    assert timed == [0, HOT_PERIOD, 2 * HOT_PERIOD, 3 * HOT_PERIOD]


def test_of_others_all_are_timed() -> None:
    stats = RequestStats(Seconds())
    tally = stats.of(metadata.API).tallies[12]
    assert all(handle(stats, tally) for _ in range(200))
    assert tally.count == 200


def test_the_request_log_times_all_from_its_switching_on_to_its_switching_off() -> None:
    stats = RequestStats(Seconds())
    api = stats.of(produce.API)
    general, short = api.tallies[9], api.fast_path_tallies[9]
    for _ in range(5):
        handle(stats, general)
        handle(stats, short)
    request_log.logger.setLevel(logging.DEBUG)
    assert [handle(stats, general) for _ in range(100)] == [True] * 100
    assert handle(stats, short), "the first look at the logger counts for all"
    request_log.logger.setLevel(logging.INFO)
    timed = [handle(stats, general) for _ in range(2 * HOT_PERIOD)]
    assert sum(timed) == 2
    assert general.count == 105 + 2 * HOT_PERIOD
    assert short.count == 6
    assert api.counts[9] == general.count + short.count


def test_each_time_is_measured_by_itself() -> None:
    clock = Seconds()
    stats = RequestStats(clock)
    api = stats.of(metadata.API)
    context = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5"), 12, 7, "me")
    clock.now = 100.001  # arrived at 100
    timing = stats.begin(api.tallies[12], 100.0)
    for step_s, call in (
        (0.002, timing.handled),
        (0.004, timing.responded),
        (0.008, timing.dequeued),
    ):
        clock.now += step_s
        call()
    clock.now += 0.016
    timing.written(context, 50, 5000, 3)
    taken = {
        "queue_ms": 1,
        "local_ms": 2,
        "remote_ms": 4,
        "response_queue_ms": 8,
        "send_ms": 16,
        "total_ms": 31,
        "throttle_ms": 3,
        "request_bytes": 50,
    }
    assert {name: round(getattr(api, name).total, 6) for name in taken} == taken


def test_a_timed_request_stands_for_those_since_the_last_one() -> None:
    clock = Seconds()
    stats = RequestStats(clock)
    api = stats.of(produce.API)
    context = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5"), 9, 7, "me")
    for number in range(2 * HOT_PERIOD + 1):
        tally = api.tallies[9]
        if tally.left:
            tally.left -= 1
            continue
        timing = stats.begin(tally, clock.now)
        clock.now += 0.001 if number else 1.0
        timing.handled()
        timing.written(context, 50, 50, 0)
    assert api.local_ms.count == sum(api.counts) == 2 * HOT_PERIOD + 1
    assert api.local_ms.total == pytest.approx(1000 + 2 * HOT_PERIOD)


def of(broker: MemoryBroker, api: Any) -> ApiStats:
    return broker.parts.requests.of(api)


@scenario(topics={"t": 2})
async def test_all_ways_of_a_produce_are_counted(broker: MemoryBroker) -> None:
    for _ in range(40):
        await broker.produce(batches.build([batches.Written(None, b"x")]), version=9)
    short = sum(tally.count for tally in of(broker, produce.API).fast_path_tallies)
    assert short == 39, "after the first one the layout is remembered"
    broken = batches.build([batches.Written(None, b"x")])
    broken[-1] ^= 0xFF
    await broker.produce(broken, version=9)
    broker.client.tell("Produce", 9, acks=0, timeout_ms=1, topic_data=[], transactional_id=None)
    await broker.ask("Metadata", 12, topics=None)
    assert of(broker, produce.API).counts[9] == 42
    assert of(broker, produce.API).error_counts == {0: 40, 2: 1}
    assert of(broker, metadata.API).counts[12] == 1
    assert of(broker, metadata.API).error_counts == {0: 4}, "the top, the topic, two partitions"


@scenario(topics={"t": 1})
async def test_a_fetch_that_waits_is_timed_as_waiting(broker: MemoryBroker) -> None:
    waiting = broker.client.send("Fetch", 12, **fetching({("t", 0): 0}, max_wait_ms=300))
    await broker.advance(250)
    assert not waiting.done()
    await broker.advance(100)
    assert waiting.done()
    stats = of(broker, fetch.API)
    assert stats.remote_ms.total == pytest.approx(300, abs=51)
    assert stats.remote_ms.total == stats.total_ms.total
    assert stats.local_ms.total == stats.queue_ms.total == 0


@scenario(topics={"t": 1})
async def test_an_answer_behind_one_that_waits_is_queued(broker: MemoryBroker) -> None:
    broker.client.send("Fetch", 12, **fetching({("t", 0): 0}, max_wait_ms=500))
    behind = broker.client.send("Metadata", 12, topics=[])
    await broker.advance(600)
    assert behind.done()
    stats = of(broker, metadata.API)
    assert stats.remote_ms.total == 0
    assert stats.response_queue_ms.total == pytest.approx(500, abs=101)
