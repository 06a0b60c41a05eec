"""Apache Kafka's message classes as judge: frames in, the same frames as Java writes them out.

One Java process for all frames.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from support import java, java_compiler
from support.paths import JAVA

SOURCE = JAVA / "wire" / "Reserialise.java"
RUN_TIMEOUT_S = 120

_case = struct.Struct(">bhhi")
_answer = struct.Struct(">bi")


class Kind(IntEnum):
    """What a frame is."""

    REQUEST = 0
    RESPONSE = 1
    ERROR_CODES = 2


class Outcome(IntEnum):
    """What Java made of a frame."""

    WRITTEN = 0
    NOT_SERVED = 1
    REFUSED = 2
    READ_ONLY = 3


class Frame(NamedTuple):
    """A frame without its length, header included."""

    kind: Kind
    key: int
    version: int
    frame: bytes


class Judged(NamedTuple):
    """The frame as Java writes it, or why there is none."""

    outcome: Outcome
    frame: bytes


def judge(frames: Sequence[Frame], libs: Path) -> list[Judged]:
    """All frames read and written by the messages in these jars."""
    asked = b"".join(
        _case.pack(one.kind, one.key, one.version, len(one.frame)) + one.frame for one in frames
    )
    classes = java_compiler.classes(SOURCE, java_compiler.libs())
    command = [java.program("java"), *java.SHORT_RUN, "-cp", f"{classes}:{libs}/*"]
    done = subprocess.run(
        [*command, SOURCE.stem],
        input=asked,
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        env=java.environment(),
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    judged = list(_answers(done.stdout))
    assert len(judged) == len(frames)
    return judged


def _answers(output: bytes) -> Iterator[Judged]:
    position = 0
    while position < len(output):
        outcome, size = _answer.unpack_from(output, position)
        position += _answer.size
        yield Judged(Outcome(outcome), output[position : position + size])
        position += size
