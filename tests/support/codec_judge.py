"""Apache Kafka's streams as judge of codecs: what they read of some bytes, and what they write.

One Java process for all.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from support import java, java_compiler
from support.paths import JAVA

SOURCE: Final = JAVA / "codecs" / "Streams.java"
RUN_TIMEOUT_S: Final = 120
READ, WRITE = 0, 1

_case: Final = struct.Struct(">bbbi")
_answer: Final = struct.Struct(">?i")


class Stream(NamedTuple):
    """Bytes in a codec, or to be put into one; within records of a magic."""

    codec: int
    data: bytes
    magic: int = 2


class Judged(NamedTuple):
    """What was read, and whether all of it could be."""

    refused: bool
    data: bytes


def read(streams: Sequence[Stream]) -> list[Judged]:
    """What Apache Kafka reads of each."""
    return _run(READ, streams)


def written(streams: Sequence[Stream]) -> list[bytes]:
    """How Apache Kafka compresses each."""
    return [one.data for one in _run(WRITE, streams)]


def _run(todo: int, streams: Sequence[Stream]) -> list[Judged]:
    asked = b"".join(
        _case.pack(todo, one.codec, one.magic, len(one.data)) + one.data for one in streams
    )
    done = subprocess.run(
        java_compiler.command_line(SOURCE),
        input=asked,
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        env=java.environment(),
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found = list(_answers(done.stdout))
    assert len(found) == len(streams)
    return found


def _answers(output: bytes) -> Iterator[Judged]:
    position = 0
    while position < len(output):
        refused, size = _answer.unpack_from(output, position)
        position += _answer.size
        yield Judged(refused, output[position : position + size])
        position += size
