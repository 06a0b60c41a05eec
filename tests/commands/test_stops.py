"""However many signals a tool gets, and whenever: it ends with its exit code, and says nothing of
them."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final

import pytest

from commands.stopped_tools import TOOLS
from kavka.tools.admin.stops import TOGETHER_S
from support.broker import kavka_environment

WITHIN_S: Final = 20.0
FLOODED: Final = ("in_a_loop", "with_a_thread", "without_an_end")
PAUSES_S: Final = (0.003, 0.2)
"""Between signals; within the first they come together."""


def started(name: str) -> subprocess.Popen[bytes]:
    environment = kavka_environment()
    del environment["PYTHONUNBUFFERED"]
    return subprocess.Popen(
        [sys.executable, "-m", "commands.stopped_tools", name],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("pause_s", PAUSES_S)
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("name", FLOODED)
def test_many_signals_end_it_silently(
    name: str, number: int, exit_code: int, pause_s: float
) -> None:
    with started(name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        try:
            for _ in range(round(WITHIN_S / pause_s)):
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(pause_s)
                    break
        finally:
            process.kill()
        printed, said = process.communicate()
    assert said == b""
    assert process.returncode in (exit_code, -number)  # the same to a shell, as Python ends
    assert printed == b"".join([b"goes on\n"] * printed.count(b"\n"))


@pytest.mark.parametrize(
    ("name", "printed"),
    [("stopped_twice_at_once", b"cleaned up\n"), ("stopped_again", b"gave up\n")],
)
def test_a_tool_cleans_up(name: str, printed: bytes) -> None:
    with started(name) as process:
        found = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, *found) == (130, printed, b"")


def test_two_signals_end_what_would_not_end() -> None:
    """Once they do not come together any more."""
    with started("without_an_end") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2 * TOGETHER_S)
        process.send_signal(signal.SIGTERM)
        found = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, *found) == (143, b"goes on\n" * 2, b"")


def test_each_tool_is_stopped_here() -> None:
    assert {*FLOODED, "stopped_twice_at_once", "stopped_again"} == TOOLS.keys()
