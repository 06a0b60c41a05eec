"""Deadlines: each wait expires at its time, in order, unless it has ended."""

import asyncio
import random

import pytest

from kavka.server.runtime.deadlines import OVER_MAX, Deadlines
from support.virtual import VirtualClock, VirtualTasks


class Waits:
    """Waits in virtual time, and what has come of them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.tasks = VirtualTasks(self.clock)
        self.over: set[int] = set()
        self.expired: list[tuple[int, float]] = []
        self.deadlines: Deadlines[int] = Deadlines(
            self.clock, self.tasks, self.expire, self.over.__contains__
        )

    def expire(self, wait: int) -> None:
        self.over.add(wait)
        self.expired.append((wait, round(self.clock.monotonic_s() * 1000)))

    def end(self, wait: int) -> None:
        self.over.add(wait)
        self.deadlines.ended()


@pytest.mark.parametrize("seed", range(10))
def test_each_wait_expires_at_its_time_unless_it_has_ended(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        waits = Waits()
        due_ms: dict[int, int] = {}
        expected: list[tuple[int, int]] = []
        for number in range(500):
            now_ms = round(waits.clock.monotonic_s() * 1000)
            within_ms = chance.choice([0, 5, 500, chance.randint(1, 3000)])
            waits.deadlines.add(number, within_ms / 1000)
            due_ms[number] = now_ms + within_ms
            if chance.random() < 0.7:
                ended = chance.choice(sorted(due_ms))
                del due_ms[ended]
                waits.end(ended)
            by_ms = chance.choice([0, 0, 1, 200])
            await waits.tasks.advance(by_ms)
            passed = sorted((due, wait) for wait, due in due_ms.items() if due <= now_ms + by_ms)
            expected += [(wait, due) for due, wait in passed]
            for _, wait in passed:
                del due_ms[wait]
        await waits.tasks.advance(3000)
        expected += [
            (wait, due) for due, wait in sorted((due, wait) for wait, due in due_ms.items())
        ]
        assert waits.expired == expected
        assert len(waits.deadlines) == 0 and waits.tasks.pending_timers == 0

    asyncio.run(main())


def test_ended_waits_are_not_kept() -> None:
    async def main() -> None:
        waits = Waits()
        waits.deadlines.add(-1, 30)
        for number in range(10_000):
            waits.deadlines.add(number, 30)
            waits.end(number)
            assert len(waits.deadlines) <= OVER_MAX + 2
            assert waits.tasks.pending_timers == 1
        waits.end(-1)
        assert len(waits.deadlines) == 0
        assert waits.tasks.pending_timers == 0

    asyncio.run(main())


def test_one_that_is_added_as_another_expires() -> None:
    async def main() -> None:
        waits = Waits()
        again = list(range(1, 4))

        def expire(wait: int) -> None:
            waits.expire(wait)
            if again:
                deadlines.add(again.pop(0), 0.01)

        deadlines: Deadlines[int] = Deadlines(
            waits.clock, waits.tasks, expire, waits.over.__contains__
        )
        deadlines.add(0, 0.01)
        deadlines.add(9, 0.5)
        await waits.tasks.advance(1000)
        assert waits.expired == [(0, 10), (1, 20), (2, 30), (3, 40), (9, 500)]

    asyncio.run(main())
