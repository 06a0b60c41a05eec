"""Prints what is recorded: from the proxy, in a process of its own, or from a capture file."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import BinaryIO, Final, TextIO

from kavka.tools.tap.capture import Reader
from kavka.tools.tap.conversation import Conversation, Event
from kavka.tools.tap.filters import Filter
from kavka.tools.tap.printing import Form, lines_of

READ_BYTES: Final = 1024 * 1024

NICENESS: Final = 5
"""The printer lets the proxy go first."""


class Printer:
    """Takes the bytes of a capture."""

    def __init__(self, form: Form, message_filter: Filter, out: TextIO) -> None:
        self._form = form
        self._filter = message_filter
        self._out = out
        self._reader = Reader()
        self._conversation = Conversation()

    def feed(self, data: bytes) -> None:
        """Print what is complete now. Damaged; BrokenPipeError when nobody reads the lines."""
        for line in self._lines(data):
            self._out.write(line + "\n")
        self._out.flush()

    def end(self) -> None:
        """The capture has ended. Damaged."""
        self._reader.end()

    def _lines(self, data: bytes) -> Iterator[str]:
        for record in self._reader.feed(data):
            shown = self._conversation.take(record)
            is_shown = (
                self._filter.is_open if isinstance(shown, Event) else self._filter.shows(shown)
            )
            if is_shown:
                yield from lines_of(shown, self._form)


def print_file(path: str, form: Form, message_filter: Filter) -> None:
    """Print a capture file. OSError, Damaged."""
    printer = Printer(form, message_filter, sys.stdout)
    with open(path, "rb") as file:
        while data := file.read(READ_BYTES):
            printer.feed(data)
    printer.end()


def start(form: Form, message_filter: Filter, capture: BinaryIO | None) -> tuple[int, int]:
    """Start a process that prints what is written to a pipe, and keeps it in `capture`.

    Returns its process id and the pipe's end. It ends when the pipe is closed, with exit code 0, or
    when nobody reads its lines. Called before there is an event loop or a thread.
    """
    read_end, write_end = os.pipe()
    process_id = os.fork()
    if process_id:
        os.close(read_end)
        return process_id, write_end
    os.close(write_end)
    exit_code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pipe's end is what ends it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.nice(NICENESS)
        _print_all(read_end, Printer(form, message_filter, sys.stdout), capture)
        exit_code = 0
    except BrokenPipeError:
        exit_code = 0
    except OSError as failure:
        print(f"kavka tap: the capture can't be written: {failure.strerror}", file=sys.stderr)
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(exit_code)


def _print_all(descriptor: int, printer: Printer, capture: BinaryIO | None) -> None:
    while data := os.read(descriptor, READ_BYTES):
        if capture is not None:
            capture.write(data)
            capture.flush()
        printer.feed(data)
