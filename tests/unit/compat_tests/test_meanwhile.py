"""Work that goes on while something happens."""

from __future__ import annotations

import asyncio

import pytest

from kavka.compat_tests.scenarios.applications.meanwhile import meanwhile


async def test_work_goes_on_until_the_body_ends() -> None:
    done = 0
    often = asyncio.Event()

    async def work() -> None:
        nonlocal done
        await asyncio.sleep(0)
        done += 1
        if done == 3:
            often.set()

    async with meanwhile(work):
        await often.wait()
    after = done
    await asyncio.sleep(0)
    assert done == after


async def test_an_error_of_the_work_is_told() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with meanwhile(work):
            await asyncio.sleep(0)
