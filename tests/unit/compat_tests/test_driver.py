"""Requests to a driver's process, and what becomes of them when it fails."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kavka.compat_tests.driver import Driver, Drivers, Program
from kavka.compat_tests.errors import DriverFailed, Refused

FAKE = Program([sys.executable, str(Path(__file__).parent / "fake_driver.py")], os.environ)


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[Driver]:
    driver = await Driver.start(FAKE, "127.0.0.1:1", directory / "errors")
    try:
        yield driver
    finally:
        await driver.kill()


async def test_it_says_who_it_is(tmp_path: Path) -> None:
    async with started(tmp_path) as driver:
        assert (driver.client, driver.version) == ("fake", "1.2")
        assert driver.can == {"produce", "fly"}


@pytest.mark.parametrize(
    ("do", "code", "name"),
    [
        ("refuse", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("refuse", 9999, "error 9999"),
        ("name", None, "OddError"),
    ],
)
async def test_errors_have_the_names_of_the_protocol(
    tmp_path: Path, do: str, code: int | None, name: str
) -> None:
    async with started(tmp_path) as driver:
        with pytest.raises(Refused) as refused:
            await driver.ask(do, code=code)
    assert refused.value.name == name


async def test_one_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    async with started(tmp_path) as driver:
        with pytest.raises(DriverFailed, match="ended in die with code 3.*the last words"):
            await driver.ask("die")


async def test_one_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async with started(tmp_path) as driver:
        with pytest.raises(DriverFailed, match="no answer to sleep"):
            await driver.ask("sleep", within_s=0.1)


async def test_a_late_response_of_another_request_is_passed_over(tmp_path: Path) -> None:
    async with started(tmp_path) as driver:
        assert await driver.ask("late") == {}


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    nothing = Program([str(tmp_path / "nothing")], os.environ)
    with pytest.raises(DriverFailed, match="No such file"):
        await Driver.start(nothing, "127.0.0.1:1", tmp_path / "errors")


async def test_drivers_are_used_again_unless_they_have_ended(tmp_path: Path) -> None:
    drivers = Drivers(FAKE, "127.0.0.1:1", tmp_path)
    first = await drivers.take()
    await first.ask("producer")
    await drivers.give_back(first)
    again = await drivers.take()
    assert again is first
    await again.kill()
    await drivers.give_back(again)
    other = await drivers.take()
    assert other is not first
    await drivers.give_back(other)
    await drivers.kill()
    assert not other.runs
