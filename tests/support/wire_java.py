"""Apache Kafka's message classes as judge: frames in, the same frames as Java writes them out.

One Java process for all frames.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from support import java, java_compiler
from support.paths import JAVA

SOURCE = JAVA / "wire" / "Reserialise.java"

_case = struct.Struct(">bhhi")


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
    cases = [
        _case.pack(frame.kind, frame.key, frame.version, len(frame.frame)) + frame.frame
        for frame in frames
    ]
    classes = java_compiler.classes(SOURCE, java_compiler.libs())
    command = [java.program("java"), *java.SHORT_RUN, "-cp", f"{classes}:{libs}/*", SOURCE.stem]
    answers = java_compiler.answers(command, cases)
    return [Judged(Outcome(outcome), frame) for outcome, frame in answers]
