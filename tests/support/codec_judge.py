"""Apache Kafka's streams as judge of codecs: what they read of some bytes, and what they write.

One Java process for all.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from support import java_compiler
from support.paths import JAVA

SOURCE: Final = JAVA / "codecs" / "Streams.java"
READ, WRITE = 0, 1

_case: Final = struct.Struct(">bbbi")


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
    return [judgement.data for judgement in _run(WRITE, streams)]


def _run(todo: int, streams: Sequence[Stream]) -> list[Judged]:
    cases = [
        _case.pack(todo, stream.codec, stream.magic, len(stream.data)) + stream.data
        for stream in streams
    ]
    answers = java_compiler.answers(java_compiler.command_line(SOURCE), cases)
    return [Judged(bool(refused), data) for refused, data in answers]
