"""Apache Kafka's message classes as judge: frames in, the same frames as Java writes them out.

One Java process for all frames. The program is compiled by Eclipse's compiler, which runs on a
plain Java runtime; jars and class are kept in `.cache/java`.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support import java
from support.paths import CACHE, JAVA

SOURCE = JAVA / "wire" / "Reserialise.java"
POM = JAVA / "wire" / "pom.xml"
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


@cache
def wire_libs() -> Path:
    """Directory of Apache Kafka 3.9's messages and of the compiler, fetched when not there yet."""
    java.program("java")
    libs = CACHE / "java" / f"wire-{_digest(POM)}"
    if not libs.exists():
        libs.parent.mkdir(parents=True, exist_ok=True)
        java.fetch(POM, libs)
    return libs


@cache
def classes() -> Path:
    """Directory of the compiled program."""
    made = CACHE / "java" / f"wire-classes-{_digest(SOURCE)}"
    if made.exists():
        return made
    libs = wire_libs()
    partial = made.with_name(f"{made.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    [compiler] = libs.glob("ecj-*.jar")
    command = [java.program("java"), "-jar", str(compiler), "-source", "17", "-target", "17"]
    command += ["-cp", ":".join(map(str, libs.glob("*.jar"))), "-d", str(partial), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    partial.rename(made)
    return made


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def judge(frames: Sequence[Frame], libs: Path) -> list[Judged]:
    """All frames read and written by the messages in these jars."""
    asked = b"".join(
        _case.pack(one.kind, one.key, one.version, len(one.frame)) + one.frame for one in frames
    )
    command = [java.program("java"), *java.SHORT_RUN, "-cp", f"{classes()}:{libs}/*"]
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
