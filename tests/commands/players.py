"""Play recorded sessions with Apache Kafka's tools, or with Kavka's."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from commands.recorded import FILES, Run, stable
from kavka.cli import COMMANDS, main
from support import java
from support.java_tools import Tools
from support.process import BrokerProcess

TOOLS: Final = "org.apache.kafka.tools"

JAVA_CLASSES: Final[Mapping[str, str]] = {
    "kafka-acls": f"{TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "kafka-cluster": f"{TOOLS}.ClusterTool",
    "kafka-configs": java.CONFIGS,
    "kafka-console-consumer": java.CONSOLE_CONSUMER,
    "kafka-console-producer": java.CONSOLE_PRODUCER,
    "kafka-consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "kafka-delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log": java.DUMP_LOG,
    "kafka-e2e-latency": f"{TOOLS}.EndToEndLatency",
    "kafka-features": f"{TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{TOOLS}.GetOffsetShell",
    "kafka-groups": f"{TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{TOOLS}.LogDirsCommand",
    "kafka-producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-storage": java.STORAGE,
    "kafka-topics": java.TOPICS,
    "kafka-transactions": f"{TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{TOOLS}.VerifiableProducer",
}

OWN_PROCESS: Final = (
    "kafka-broker-api-versions",
    "kafka-cluster",
    "kafka-features",
    "kafka-storage",
    "kafka-transactions",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
)
"""Tools that end their process by themselves."""

Player = Callable[[Run, Mapping[str, str]], java.Finished]
"""Runs one command line, with the places in it."""


def apache_kafka(tools: Tools) -> Player:
    """Plays with Apache Kafka's tools."""

    def play(run: Run, places: Mapping[str, str]) -> java.Finished:
        runner = java.run if run.tool in OWN_PROCESS else tools.run
        return runner(JAVA_CLASSES[run.tool], *run.words(places), stdin=run.stdin)

    return play


def kavka(run: Run, places: Mapping[str, str]) -> java.Finished:
    """Plays with Kavka's."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err, given = io.StringIO(), io.TextIOWrapper(io.BytesIO(run.stdin), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", given)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                exit_code = main([run.tool.removeprefix("kafka-"), *run.words(places)])
            except SystemExit as end:  # argparse's
                exit_code = int(end.code or 0)
    out.seek(0)
    return java.Finished(exit_code, out.read().encode(), err.getvalue())


def is_there(run: Run) -> bool:
    """Whether Kavka has the tool."""
    return run.tool.removeprefix("kafka-") in {command.name for command in COMMANDS}


class Stage:
    """Where sessions are played: a broker, and a directory of the caller's for the files that lines
    name."""

    def __init__(self, play: Player, broker: BrokerProcess, home: Path) -> None:
        files = home / "files"
        files.mkdir()
        self._play = play
        self._places = {
            "BROKER": broker.bootstrap,
            "PORT": broker.bootstrap.rpartition(":")[2],
            "DATA": str(broker.data_dir),
            "FILES": str(files),
        }
        for name, text in FILES.items():
            (files / name).write_text(text.replace("FILES", str(files)))

    def play(self, run: Run) -> tuple[Run, str]:
        """What becomes of a command line now, and what it says on standard error."""
        done = self._play(run, self._places)
        found = Run(run.line, done.stdout.decode(errors="replace"), done.exit_code)
        return stable(found, self._places), done.stderr
