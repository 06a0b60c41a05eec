"""A program on a terminal: all that it writes there, and what is left on the screen."""

from __future__ import annotations

import codecs
import os
import pty
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

SEQUENCE: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([^\x1b])", re.DOTALL)
WITHIN_S: Final = 120.0


class Terminal:
    """Where a program writes that has `slave` for its output."""

    def __init__(self) -> None:
        self._master, self.slave = pty.openpty()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.written = ""

    def read(self) -> bool:
        """More of what is written; False when nobody writes there any more."""
        with suppress(OSError):  # so Linux says that
            if piece := os.read(self._master, 65536):
                self.written += self._decoder.decode(piece)
                return True
        return False

    def close(self) -> None:
        os.close(self._master)


class Ran(NamedTuple):
    """A program that has ended."""

    exit_code: int
    out: str
    """What it wrote to standard output; "" if that was the terminal."""
    terminal: str
    """What it wrote to the terminal."""


def on_terminal(
    command: Sequence[str], env: Mapping[str, str], *, out: bool = False, lines: Path | None = None
) -> Ran:
    """Run it with a terminal for standard error, and for standard output as well if `out`; `lines`
    is its standard input."""
    terminal = Terminal()
    source = os.open(lines or os.devnull, os.O_RDONLY)
    try:
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=terminal.slave if out else subprocess.PIPE,
            stderr=terminal.slave,
            env={**env, "TERM": "xterm", "COLUMNS": "100"},
        )
    finally:
        os.close(terminal.slave)
        os.close(source)
    try:
        while terminal.read():
            """It goes on."""
        text = b"" if process.stdout is None else process.communicate(timeout=WITHIN_S)[0]
        return Ran(process.wait(WITHIN_S), text.decode(), terminal.written)
    finally:
        terminal.close()
        if process.poll() is None:
            process.kill()
            process.wait()


def screen(written: str) -> list[str]:
    """The lines that are left, without empty ones at the end."""
    lines, row, column = [""], 0, 0
    for found in SEQUENCE.finditer(written):
        number, command, letter = found.groups()
        if command == "K":
            lines[row] = ""
        elif command == "A":
            row -= int(number or 1)
        elif letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif letter:
            lines[row] = lines[row].ljust(column)[:column] + letter + lines[row][column + 1 :]
            column += 1
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]
