"""Work in slices: nothing waits when there is little of it, and others have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from kavka.server import slices
from kavka.server.slices import Slices
from support.virtual import VirtualClock, VirtualTasks


def work(turns: list[str], yields: int) -> Slices[str]:
    for number in range(yields):
        turns.append(f"slice {number}")
        yield
    turns.append("last")
    return "done"


def test_a_little_is_done_at_once() -> None:
    turns: list[str] = []
    assert slices.run(VirtualTasks(VirtualClock()), work(turns, 0)) == "done"
    assert turns == ["last"]


def test_others_have_a_turn_after_each_slice() -> None:
    async def run() -> list[str]:
        turns: list[str] = []
        result = slices.run(VirtualTasks(VirtualClock()), work(turns, 3))
        assert isinstance(result, Awaitable)

        async def other() -> None:
            while turns[-1] != "last":
                turns.append("other")
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        assert await result == "done"
        await beside
        return turns

    turns = asyncio.run(run())
    assert [turn for turn in turns if turn != "other"] == ["slice 0", "slice 1", "slice 2", "last"]
    for number in range(2):
        between = turns[turns.index(f"slice {number}") : turns.index(f"slice {number + 1}")]
        assert "other" in between


@pytest.mark.parametrize("yields", [0, 2])
def test_failures_are_the_callers(yields: int) -> None:
    def failing() -> Slices[None]:
        for _ in range(yields):
            yield
        raise ValueError("broken")

    async def run() -> None:
        result = slices.run(VirtualTasks(VirtualClock()), failing())
        assert isinstance(result, Awaitable)
        await result

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run())
