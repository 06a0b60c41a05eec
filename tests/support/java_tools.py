"""Apache Kafka's command line tools, many runs in one process: a second less for each."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Self, cast

from support import java, java_compiler
from support.paths import JAVA

SOURCE = JAVA / "tools" / "RunTools.java"
STOP_WITHIN_S = 30.0

_number = struct.Struct(">i")


def says_completed(verified: str) -> bool:
    """Whether kafka-reassign-partitions --verify has printed that all partitions are moved; that
    has taken the throttle away. The broker it asks may not know of the move yet: then it prints
    "rather than"."""
    unfinished = ("still in progress", "rather than")
    return "is completed" in verified and not any(words in verified for words in unfinished)


class Tools:
    """One such process. A tool ends as it would by itself, but for what it leaves running."""

    def __init__(self, log: Path, options: Sequence[str] = ()) -> None:
        """`options`: more of the JVM's."""
        program, *rest = java_compiler.command_line(SOURCE)
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [program, *options, *rest],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(java.environment()),
            )
        self._in = cast(BinaryIO, self._process.stdin)
        self._out = cast(BinaryIO, self._process.stdout)

    def run(self, tool: str, *arguments: str, stdin: bytes = b"") -> java.Finished:
        """Run one tool to its end."""
        self._in.write(_number.pack(1 + len(arguments)))
        for text in (tool, *arguments):
            self._in.write(_number.pack(len(text.encode())) + text.encode())
        self._in.write(_number.pack(len(stdin)) + stdin)
        self._in.flush()
        (code,) = _number.unpack(self._read(_number.size))
        stdout, stderr = self._block(), self._block()
        return java.Finished(code, stdout, stderr.decode(errors="replace"))

    def _block(self) -> bytes:
        (size,) = _number.unpack(self._read(_number.size))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._out.read(size)
        assert len(data) == size, "the process of the Java tools has ended"
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._in.close()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()
