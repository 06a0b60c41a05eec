"""Clients of before 0.11, which know no record batches: Apache Kafka's own of 0.8.2 to 0.10.2, and
kafka-python 2.0.2 configured for a broker of that age.

Each runs as a program of its own: with jars of its own, or with a kafka-python of its own, which
is installed once into `.cache/python`.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support import installed, java, java_compiler
from support.clients.client import Ack, Found
from support.clients.corpus import Record
from support.paths import JAVA, ROOT

PROGRAM_TIMEOUT_S = 300
FETCH_BYTES = 1 << 20

OLD = ROOT / "tests" / "old"
REQUIREMENTS = OLD / "requirements.txt"
PYTHON_PROGRAM = OLD / "kafka_python_2.py"
JAVA_PROGRAM = JAVA / "old" / "OldClient.java"
CREATE_TIME = "CreateTime:"


@dataclass(frozen=True)
class OldClient:
    """One of them. `project` names its jars, or else `speaks` the version it is given."""

    name: str
    project: str = ""
    speaks: str = ""
    stamps: bool = False
    """Whether its records have timestamps."""

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        """Write with acks=all; where each record lies."""
        lines = [
            " ".join(
                (
                    str(record.partition),
                    str(record.timestamp_ms) if self.stamps else "-",
                    _text(record.key),
                    _text(record.value),
                )
            )
            for record in records
        ]
        output = self._run("write", bootstrap, topic, codec, stdin="\n".join(lines))
        return [Ack(*map(int, line.split())) for line in output]

    def read(
        self, bootstrap: str, topic: str, ends: Mapping[int, int], max_bytes: int = FETCH_BYTES
    ) -> dict[int, list[Found]]:
        """Read each partition from its beginning, in no group, so many bytes at a time."""
        ends_given = ",".join(f"{partition}:{end}" for partition, end in ends.items())
        found: dict[int, list[Found]] = {partition: [] for partition in ends}
        for line in self._run("read", bootstrap, topic, ends_given, str(max_bytes)):
            partition, rest = line.split(" ", 1)
            found[int(partition)].append(_found(rest, int(partition)))
        return found

    def commit(self, bootstrap: str, topic: str, offset: int, metadata: str) -> list[str]:
        """Commit an offset of partition 0 for the group of the topic's name; what was committed
        before, and what is then."""
        return self._run("commit", bootstrap, topic, str(offset), metadata)

    def _run(self, action: str, *arguments: str, stdin: str = "") -> list[str]:
        if self.project:
            command, environment = self._java(), dict(java.environment())
        else:
            command = [sys.executable, str(PYTHON_PROGRAM)]
            environment = {**os.environ, "PYTHONPATH": str(kafka_python_2())}
        command.append(action)
        if self.speaks:
            command.append(self.speaks)
        done = subprocess.run(
            [*command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            env=environment,
        )
        assert done.returncode == 0, f"{self.name}: {done.stderr[-4000:]}"
        return done.stdout.splitlines()

    def _java(self) -> list[str]:
        """Compiled once, with the newest of the jars, the program runs with all of them."""
        return java_compiler.command_line(JAVA_PROGRAM, self.project, JAVA_0_10.project)


JAVA_0_8 = OldClient("java-0.8.2.2", project="kafka082")
JAVA_0_9 = OldClient("java-0.9.0.1", project="kafka09")
JAVA_0_10 = OldClient("java-0.10.2.2", project="kafka010", stamps=True)
PYTHONS = tuple(
    OldClient(f"kafka-python-2.0.2-as-{version}", speaks=version, stamps=version.startswith("0.10"))
    for version in ("0.8.2", "0.9", "0.10.0", "0.10.1")
)

PYTHON_0_8_1 = OldClient("kafka-python-2.0.2-as-0.8.1", speaks="0.8.1")
"""It keeps offsets in ZooKeeper, by way of the broker."""

WRITERS = (JAVA_0_8, JAVA_0_9, JAVA_0_10, *PYTHONS)
READERS = (JAVA_0_10, *PYTHONS)
"""Apache Kafka's consumer came with 0.9, where it does nothing without a group's coordinator."""


@cache
def kafka_python_2() -> Path:
    """Directory of the old kafka-python, installed when it isn't there yet."""
    return installed.once("python", [REQUIREMENTS], _install)


def _install(into: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--quiet", "--no-deps", "--require-hashes", f"--target={into}"]
    installed.run([*command, "--requirement", str(REQUIREMENTS)], ROOT, os.environ)


def _text(data: bytes | None) -> str:
    return "-" if data is None else "=" + base64.b64encode(data).decode()


def _data(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])


def _found(line: str, partition: int) -> Found:
    offset, timestamp, key, value = line.split()
    assert timestamp == "-" or timestamp.startswith(CREATE_TIME), line
    time_ms = None if timestamp == "-" else int(timestamp.removeprefix(CREATE_TIME))
    return Found(int(offset), Record(_data(key), _data(value), (), partition, time_ms))
