"""Programs of stock clients as processes: they read and write lines.

They are written in the languages of the clients; here is how each kind is started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from support import golang, java, java_compiler, node
from support.paths import ROOT

END_WITHIN_S = 60.0
SHOWN_BYTES = 3000
TESTS = ROOT / "tests"


class Started(NamedTuple):
    """How to start a program."""

    command: list[str]
    environment: Mapping[str, str]


def python(program: Path, *paths: Path) -> Started:
    """A program in Python, with more to import from."""
    path = os.pathsep.join(map(str, (*paths, TESTS)))
    return Started([sys.executable, str(program)], {**os.environ, "PYTHONPATH": path})


def of_java(source: Path, project: str) -> Started:
    """A program in Java, compiled with the newest of the clients, run with those of a project."""
    return Started(java_compiler.command_line(source, project), java.environment())


def javascript(script: str) -> Started:
    """A program for Node.js."""
    return Started(node.command_line(node.NODE / script), node.environment())


def of_go(program: str) -> Started:
    """A program in Go."""
    return Started([str(golang.program(program))], os.environ)


class TalkingProcess:
    """One of them, running; `on_line` gets each line that it prints, in a thread of its own."""

    def __init__(
        self,
        started: Started,
        arguments: Sequence[str],
        on_line: Callable[[bytes], None],
        stderr: Path,
    ) -> None:
        self._on_line = on_line
        self._stderr = stderr
        with stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                [*started.command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(started.environment),
                start_new_session=True,
            )
        self._in = cast(BinaryIO, self.process.stdin)
        self._out = cast(BinaryIO, self.process.stdout)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def send(self, command: str) -> None:
        """Give it a line."""
        assert self.runs, self.errors()
        self._in.write(command.encode() + b"\n")
        self._in.flush()

    def pause(self) -> None:
        """SIGSTOP: it does nothing more, and knows nothing of it."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on where it was."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL. What it reported before is read when this returns."""
        assert self.runs, self.errors()
        self.close()

    def finish(self) -> int:
        """Its input ends, and it ends politely; its exit code."""
        self._in.close()
        code = self.process.wait(END_WITHIN_S)
        self.close()
        return code

    def close(self) -> None:
        """End it in any way, for the end of a test; again does no harm."""
        if self.runs:
            self.process.kill()
            self.process.wait(END_WITHIN_S)
        self._reader.join(END_WITHIN_S)
        try:
            self._in.close()
        except BrokenPipeError:
            pass  # a line that it did not take any more
        self._out.close()

    def errors(self) -> str:
        """The last of its standard error, for messages about a failed test."""
        return self._stderr.read_text(errors="replace")[-SHOWN_BYTES:]

    def _listen(self) -> None:
        for line in self._out:
            if line.endswith(b"\n"):
                self._on_line(line)
