"""A progress bar comes after a second, on a terminal only, and goes at the end."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from kavka.tools.progress import Status, progress
from support.broker import kavka_environment
from support.terminal import on_terminal, screen


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
        clock.time_s = 1.55
        step()
        assert "3/4" not in screen.getvalue(), "it has just been drawn"
        assert screen.getvalue().rfind("\x1b[?25h") > screen.getvalue().rfind("\x1b[?25l"), "cursor"
        clock.time_s = 1.65
        step()
    shown = screen.getvalue()
    assert "reading logs" in shown
    assert "4/4" in shown.rpartition("reading logs")[2]
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


PRINTING = """
import sys
from kavka.tools.progress import Status, progress

times = iter(range(100))
with progress("records", 9, lambda: next(times)) as step:
    print("one")
    step()
    print("two", end="")
    step()
    print(" and three")
    step()
    print("four", file=sys.stderr)
    step()
    print("five", end="")
print()
status = Status(lambda: next(times))
status.show(lambda: "copied [a]")
status.show(lambda: "copied more")
status.close()
"""


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_what_is_printed_meanwhile_stays_whole(is_terminal: bool) -> None:
    ran = on_terminal([sys.executable, "-c", PRINTING], kavka_environment(), out=is_terminal)
    assert ran.exit_code == 0, ran
    for shown in ("1/9", "2/9", "3/9", "4/9", "copied [a]", "copied more"):
        assert shown in ran.terminal
    if is_terminal:
        assert screen(ran.terminal) == ["one", "two and three", "four", "five"]
    else:
        assert ran.out == "one\ntwo and three\nfive\n"
        assert screen(ran.terminal) == ["four"]


HELD = 20_000


def test_threads_print_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Terminal()
    monkeypatch.setattr("sys.stderr", output)
    interval_s = sys.getswitchinterval()

    def print_all(text: str) -> None:
        for _ in range(HELD):
            sys.stderr.write(text)

    sys.setswitchinterval(1e-6)
    try:
        with progress("records", 9):
            threads = [threading.Thread(target=print_all, args=[text]) for text in ("a", "b\n")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert {text: output.getvalue().count(text) for text in "ab\n"} == dict.fromkeys("ab\n", HELD)


def test_no_bar_where_it_could_not_be_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "dumb")
    with progress("reading logs", 4, clock) as step:
        clock.time_s = 1.5
        step()
        print("a line", file=sys.stderr)
        clock.time_s = 2.5
        step()
    assert screen.getvalue() == "a line\n"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_spinner_has_letters_that_the_terminal_has(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Encoded(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    clock, written = Clock(), io.BytesIO()
    screen = Encoded(written, encoding, errors="backslashreplace")
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    status = Status(clock)
    clock.time_s = 1.5
    status.show(lambda: "waiting")
    status.close()
    screen.flush()
    shown = written.getvalue().decode(encoding)
    assert "waiting" in shown and "\\u" not in shown
    assert shown.isascii() is (encoding != "utf-8")
