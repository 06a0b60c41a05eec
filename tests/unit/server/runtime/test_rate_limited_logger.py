"""A flood of one kind of line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from kavka.server.runtime.rate_limited_logger import LINES_MAX, PERIOD_S, RateLimitedLogger
from support.virtual import VirtualClock, VirtualTasks

PERIOD_MS = PERIOD_S * 1000


def lines(
    caplog: pytest.LogCaptureFixture,
    story: Callable[[RateLimitedLogger, VirtualTasks], Awaitable[None]],
) -> list[str]:
    """What is in the log after a story."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        tasks = VirtualTasks(VirtualClock())
        logger = logging.getLogger("kavka.test")
        await story(
            RateLimitedLogger(logger, logging.WARNING, "things that happened", tasks), tasks
        )
        await tasks.advance(2 * PERIOD_MS)
        assert tasks.pending_timers == 0, "nothing is left running"

    asyncio.run(main())
    assert {record.levelname for record in caplog.records} <= {"WARNING"}
    return caplog.messages


def test_a_few_lines_are_written(caplog: pytest.LogCaptureFixture) -> None:
    async def story(limited: RateLimitedLogger, tasks: VirtualTasks) -> None:
        for number in range(LINES_MAX):
            limited.line("thing %d", number)
        assert limited.count == LINES_MAX

    assert lines(caplog, story) == [f"thing {number}" for number in range(LINES_MAX)]


def test_of_a_flood_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def story(limited: RateLimitedLogger, tasks: VirtualTasks) -> None:
        for number in range(LINES_MAX + 1234):
            limited.line("thing %d", number)
        assert limited.count == LINES_MAX + 1234
        await tasks.advance(PERIOD_MS)
        limited.line("thing later")

    found = lines(caplog, story)
    assert found[:LINES_MAX] == [f"thing {number}" for number in range(LINES_MAX)]
    assert found[LINES_MAX:] == ["1234 more things that happened in 10 s", "thing later"]


def test_suppressed_lines_are_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def story(limited: RateLimitedLogger, tasks: VirtualTasks) -> None:
        limited.close()
        for _ in range(LINES_MAX + 3):
            limited.line("thing")
        limited.close()
        assert tasks.pending_timers == 0

    assert lines(caplog, story)[LINES_MAX:] == ["3 more things that happened in 10 s"]


def test_a_flood_that_goes_on_is_bounded_by_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story(limited: RateLimitedLogger, tasks: VirtualTasks) -> None:
        for _ in range(100):
            for _ in range(100):
                limited.line("thing")
            await tasks.advance(PERIOD_MS / 10)

    found = lines(caplog, story)
    assert len(found) == 10 * (LINES_MAX + 1)
    assert sum("more" in line for line in found) == 10
