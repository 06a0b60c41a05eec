"""Programs in Java for the tests, compiled by Eclipse's compiler, which runs on a plain runtime.

The compiler's jar and the classes are kept in `.cache/java`.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support import installed, java

COMPILE_TIMEOUT_S = 300
RUN_TIMEOUT_S = 300

_answer = struct.Struct(">bi")


@cache
def libs() -> Path:
    """Directory of the compiler and of Apache Kafka 3.9's messages, fetched when not there yet."""
    return java.libs("wire")


@cache
def classes(source: Path, *class_path: Path) -> Path:
    """Directory of a compiled program that uses the jars in the directories `class_path`: of one
    file, or of all in a directory."""
    sources = sorted(source.glob("*.java")) if source.is_dir() else [source]

    def compile_into(made: Path) -> None:
        [compiler] = libs().glob("ecj-*.jar")
        command = [java.program("java"), "-jar", str(compiler), "-source", "17", "-target", "17"]
        jars = ":".join(str(jar) for directory in class_path for jar in directory.glob("*.jar"))
        command += ["-cp", jars, "-d", str(made), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    return installed.once(f"java/{source.parent.name}-classes", sources, compile_into)


def command_line(source: Path, project: str = "kafka4", built_with: str = "kafka4") -> list[str]:
    """How to run a program, compiled with one project's jars, with those of a project."""
    options = [*java.SHORT_RUN, *java.shared_classes(project)]
    path = f"{java.libs(project)}/*:{classes(source, java.libs(built_with))}"
    return [java.program("java"), *options, "-cp", path, source.stem]


def answers(command: list[str], cases: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """What a program answers to each case on its standard input: a byte, and data of any length.

    One process for all cases.
    """
    done = subprocess.run(
        command,
        input=b"".join(cases),
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        env=java.environment(),
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found, position = [], 0
    while position < len(done.stdout):
        outcome, size = _answer.unpack_from(done.stdout, position)
        position += _answer.size + size
        found.append((outcome, done.stdout[position - size : position]))
    assert len(found) == len(cases)
    return found
