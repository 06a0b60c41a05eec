"""Recorded sessions: command lines of Apache Kafka's tools, what they print and their exit codes.

A session is a file in `golden`: lines that begin with `$ kafka-`, each followed by what Apache
Kafka 4.3.1's tool printed on standard output with Apache Kafka 4.3.1 as the broker, and `rc=N`.
`python -m commands.record` writes all of that anew. In a line `BROKER` is the broker's address,
`DATA` its log directory, `FILES` a directory with the files below; what follows `<<<` is standard
input.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

GOLDEN: Final = Path(__file__).parent / "golden"

SESSIONS: Final = (
    "cluster",
    "topics",
    "configs",
    "acls",
    "records",
    "groups",
    "measuring",
    "partitions",
    "transactions",
    "files",
    "storage",
)
"""In the order in which they are played, on one broker."""

SERVER: Final = (
    "node.id=1\nprocess.roles=broker,controller\nlog.dirs=FILES/LOGS\n"
    "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
    "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
)
"""The server.properties that directories are formatted by; LOGS is theirs."""

FILES: Final[Mapping[str, str]] = {
    "delete.json": '{"partitions":[{"topic":"orders","partition":1,"offset":1}],"version":1}',
    "delete-compacted.json": '{"partitions":[{"topic":"compacted","partition":0,"offset":0}]}',
    "topics.json": '{"topics":[{"topic":"perf"}],"version":1}',
    "move.json": '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]}]}',
    "to-9.json": '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[9]}]}',
    "topics-nope.json": '{"topics":[{"topic":"nope"}],"version":1}',
    "move-nope.json": '{"version":1,"partitions":[{"topic":"nope","partition":0,"replicas":[1]}]}',
    "client.properties": "client.id=recorder\nrequest.timeout.ms=20000\n",
    "bad.properties": "security.protocol=NOPE\n",
    "server.properties": SERVER.replace("LOGS", "formatted"),
    "observer.properties": SERVER.replace("LOGS", "observer"),
}

STDIN: Final = " <<< "
MEASURED_BY: Final = ("perf-test", "e2e-latency")

PLACES: Final = (
    (re.compile(r"(?<=TopicId: )[\w-]{22}"), "ID"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "MILLISECONDS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"), "TIME"),
    (re.compile(r'(?<="message":)"[^"]*"'), "MESSAGE"),
    (re.compile(r'(?<="avg_throughput":)[\d.E]+'), "RATE"),
    (re.compile(r"(?<=perf-consumer-)\d+"), "NUMBER"),
    (re.compile(r"(?<=Cluster ID: )[\w-]{22}"), "ID"),
    (re.compile(r"^[\w-]{22}$", re.MULTILINE), "ID"),
    (re.compile(r"(?<=directory\.id=)[\w-]{22}"), "ID"),
    (re.compile(r"127\.0\.0\.1:\d{5}"), "CONTROLLER"),
    (re.compile(r"(?<= Epoch: )\d+"), "NUMBER"),
    (re.compile(r"(?<= crc: )\d+"), "CRC"),
    # two records whose times are more than 63 ms apart take a byte more
    (re.compile(r'(?<="size":)84\b|(?<= size: )84\b'), "83"),
    (re.compile(r'(?<="name":"records_consumed","count":)\d+'), "COUNT"),
    (re.compile(r"^(\tat|Caused by:) .*\n", re.MULTILINE), ""),
    (re.compile(r"^[\w.]+Exception: .*\n", re.MULTILINE), ""),
)
"""What differs from run to run."""

FIGURE: Final = re.compile(
    r"-?\d+\.\d+(E-?\d+)?|\b\d+(?= ms)|(?<=th = )\d+|NaN|Infinity|(?<=, )\d+"
)
"""What perf tests measure."""


class Run(NamedTuple):
    """One command line, and what became of it."""

    line: str
    """Without `$ `."""
    printed: str
    exit_code: int

    @property
    def tool(self) -> str:
        """Such as kafka-topics."""
        return self.line.split(maxsplit=1)[0]

    def words(self, places: Mapping[str, str]) -> list[str]:
        """The tool's arguments, with places filled in."""
        text = self.line.partition(STDIN)[0]
        for name, place in places.items():
            text = text.replace(name, place)
        return shlex.split(text)[1:]

    @property
    def reads(self) -> bool:
        """Whether it only reads: it may be run again until what was changed before it shows."""
        return " --describe" in self.line or " --list" in self.line or " list" in self.line

    @property
    def stdin(self) -> bytes:
        """What the tool reads."""
        return self.line.partition(STDIN)[2].encode().decode("unicode_escape").encode()


def runs(session: str) -> Iterator[Run]:
    """The runs of one session, in their order."""
    for text in (GOLDEN / f"{session}.txt").read_text().split("\n$ "):
        line, _, rest = text.removeprefix("$ ").partition("\n")
        printed, _, code = rest.rstrip("\n").rpartition("rc=")
        yield Run(line, printed, int(code or 0))


def write(session: str, played: list[Run]) -> None:
    """Write what became of a session's lines."""
    texts = [f"$ {run.line}\n{run.printed}rc={run.exit_code}\n" for run in played]
    (GOLDEN / f"{session}.txt").write_text("".join(texts))


def stable(run: Run, places: Mapping[str, str]) -> Run:
    """Without what differs from run to run, and with the names of places."""
    text = run.printed
    for name, place in places.items():
        text = text.replace(place, name)
    for pattern, name in PLACES:
        text = pattern.sub(name, text)
    if run.tool.endswith(MEASURED_BY):
        text = FIGURE.sub("FIGURE", text)
    if " describe-producers " in run.line:
        text = re.sub(r"^\d+", "NUMBER", text, flags=re.MULTILINE)
    lines = [_in_order(line) for line in text.splitlines(keepends=True)]
    if run.tool == "kafka-console-consumer":
        lines.sort()  # partitions are read in any order
    return run._replace(printed="".join(lines))


def _in_order(line: str) -> str:
    """A JSON object with its names in one order: Java's differs from run to run."""
    if not line.startswith('{"timestamp"'):
        return line
    text = re.sub(r"(?<=:)([A-Z]+)(?=[,}])", r'"\1"', line)
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"
