"""A progress bar comes after a second, on a terminal only, and goes at the end."""

from __future__ import annotations

import io

import pytest

from kavka.tools.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def __call__(self) -> float:
        return self.time_s


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress("reading logs", 4, clock) as step:
        step()
        assert not screen.getvalue()
        clock.time_s = 1.5
        step()
        step()
    shown = screen.getvalue()
    assert "reading logs" in shown
    assert "3/4" in shown.rpartition("reading logs")[2]
    assert shown.endswith("\x1b[2K"), "the line is cleared"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_one_beside_output_in_a_file(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("sys.stdout", Terminal() if is_terminal else io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    with progress("bytes of a file", 100, clock, prints=True) as step:
        clock.time_s = 1.5
        step(70)
    assert ("70/100" in screen.getvalue()) is not is_terminal


def test_no_bar_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = io.StringIO(), Clock()
    monkeypatch.setattr("sys.stderr", screen)
    with progress("reading logs", 4, clock) as step:
        clock.time_s = 1.5
        step()
    assert not screen.getvalue()
