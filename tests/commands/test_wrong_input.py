"""Whatever is wrong with a command line, one line says so, and the exit code is the documented one:
1 of tools, of completion and of pipelines (which read options from files, too), and 2 of `kavka`'s
own other commands, as argparse's."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from kavka.cli import COMMANDS, main
from kavka.testing import Broker
from support.broker import kavka_environment

pytestmark = pytest.mark.usefixtures("own_log")

UNREACHABLE: Final = "--bootstrap-server 127.0.0.1:1"

ASKING: Final[Mapping[str, str]] = {
    "acls": f"{UNREACHABLE} --list",
    "broker-api-versions": UNREACHABLE,
    "cluster": f"cluster-id {UNREACHABLE}",
    "configs": f"{UNREACHABLE} --describe --topic t",
    "console-consumer": f"{UNREACHABLE} --topic t",
    "console-producer": f"{UNREACHABLE} --topic t",
    "consumer-groups": f"{UNREACHABLE} --list --output json",
    "consumer-perf-test": f"{UNREACHABLE} --topic t --num-records 1",
    "delegation-tokens": f"{UNREACHABLE} --describe --command-config CONFIG",
    "delete-records": f"{UNREACHABLE} --offset-json-file FILE",
    "e2e-latency": f"{UNREACHABLE} --topic t --num-records 1 --producer-acks 1 --record-size 1",
    "features": f"{UNREACHABLE} describe",
    "get-offsets": f"{UNREACHABLE} --topic t",
    "groups": f"{UNREACHABLE} --list",
    "leader-election": f"{UNREACHABLE} --election-type preferred --all-topic-partitions",
    "log-dirs": f"{UNREACHABLE} --describe",
    "producer-perf-test": (
        f"{UNREACHABLE} --topic t --num-records 1 --record-size 1 --throughput -1"
    ),
    "reassign-partitions": f"{UNREACHABLE} --list",
    "replica-verification": "--broker-list 127.0.0.1:1",
    "mirror": "--source 127.0.0.1:1 --target 127.0.0.1:1 --topic t",
    "topics": f"{UNREACHABLE} --list",
    "transactions": f"{UNREACHABLE} list",
    "verifiable-consumer": f"{UNREACHABLE} --topic t --group-id g --max-messages 1",
    "verifiable-producer": f"{UNREACHABLE} --topic t --max-messages 1",
}
"""Command lines of which only the broker is missing."""

OWN: Final = frozenset({"start", "dev", "version", "spark", "pipeline", "completion", "compat"})
"""Commands that no broker is asked by."""

UNLIKE: Final = frozenset({"doctor", "dump-log", "storage", "tap"})
"""Tools that go on without a broker, or that ask none."""


MISSING: Final[Mapping[str, tuple[str, str]]] = {
    "acls": (UNREACHABLE, "Command must include exactly one action"),
    "broker-api-versions": ("", '"[bootstrap-server]"'),
    "cluster": ("", "a command is missing"),
    "configs": (f"{UNREACHABLE} --alter --topic t", "--add-config"),
    "console-consumer": (UNREACHABLE, "[topic], [include]"),
    "console-producer": (UNREACHABLE, '"[topic]"'),
    "consumer-groups": (f"{UNREACHABLE} --describe", "[group], [all-groups]"),
    "consumer-perf-test": (f"{UNREACHABLE} --num-records 1", "topic"),
    "delegation-tokens": (f"{UNREACHABLE} --describe", "command-config"),
    "delete-records": (UNREACHABLE, '"[offset-json-file]"'),
    "doctor": ("", "--bootstrap-server or a directory"),
    "dump-log": ("", '"[files]"'),
    "e2e-latency": (f"{UNREACHABLE} --topic t --num-records 1", "producer-acks"),
    "features": ("describe", "bootstrap-server"),
    "get-offsets": ("--topic t", '"[bootstrap-server]"'),
    "groups": (UNREACHABLE, "--list"),
    "leader-election": (f"{UNREACHABLE} --election-type preferred", "topic, all-topic-partitions"),
    "log-dirs": (UNREACHABLE, '"[describe]"'),
    "mirror": ("--source 127.0.0.1:1 --topic t", '"[target]"'),
    "producer-perf-test": (
        f"{UNREACHABLE} --topic t --num-records 1 --throughput -1",
        "record-size",
    ),
    "reassign-partitions": (f"{UNREACHABLE} --execute", "reassignment-json-file"),
    "replica-verification": ("", '"[broker-list]"'),
    "storage": ("format --cluster-id x", "--config"),
    "tap": ("", '"[listen]"'),
    "topics": (f"{UNREACHABLE} --create", '"[topic]"'),
    "transactions": (f"{UNREACHABLE} describe", "--transactional-id"),
    "verifiable-consumer": (f"{UNREACHABLE} --topic t", "group-id"),
    "verifiable-producer": (UNREACHABLE, "topic"),
    "completion": ("", "the shell is one of"),
    "pipeline": ("sink --table t", "missing: bootstrap_server (--bootstrap-server)"),
    "compat": ("--compare one.json", "argument --compare: expected 2 arguments"),
    "dev": ("--brokers", "argument --brokers: expected one argument"),
    "spark": ("", "the following arguments are required: COMMAND"),
    "start": ("--override", "argument --override: expected one argument"),
}
"""Command lines that lack something, and what is said of it. `version` needs nothing."""

BELOW: Final[Mapping[str, str]] = {
    **{name: "" for name in ("completion", "compat", "dev", "start", "version")},
    "pipeline": "sink",
    "spark": "fetch-jars",
}
"""Where an option of `kavka`'s own commands is given."""

BY_ARGPARSE: Final = frozenset({"start", "dev", "version", "spark", "compat"})
"""They exit with code 2, and print their usage before the line."""

NO_TOPIC: Final = "This server does not host this topic-partition."
NO_GROUP: Final = "The group id does not exist."
PREFERRED: Final = "--election-type preferred"
TO_MOVE: Final = "--topics-to-move-json-file TOPICS --broker-list 1"
CONSUMER: Final = "verifiable-consumer AT --topic t --group-id g --max-messages 1"
PRODUCER: Final = "producer-perf-test AT --topic t --num-records 1 --record-size 1 --throughput -1"
IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
ASSIGNOR: Final = "--group-remote-assignor nope"

LIBRARY_S: Final = "%0|"
"""Begins what librdkafka says of an error that is fatal to it, before the tool does."""

NO_SUCH: Final[Sequence[tuple[str, int, str]]] = (
    ("topics AT --describe --topic nope", 1, "Topic 'nope' does not exist"),
    ("topics AT --alter --topic nope --partitions 3", 1, "Topic 'nope' does not exist"),
    ("topics AT --delete --topic nope", 1, "Topic 'nope' does not exist"),
    ("configs AT --describe --topic nope", 0, "The topic 'nope' doesn't exist"),
    ("configs AT --alter --topic nope --add-config segment.ms=9", 1, "'nope' does not exist"),
    ("configs AT --describe --group nope", 0, "The group 'nope' doesn't exist"),
    ("console-consumer AT --topic nope --timeout-ms 500", 0, "Processed a total of 0 messages"),
    ("console-producer AT --topic nope --command-property max.block.ms=500", 0, "to topic nope"),
    ("consumer-perf-test AT --topic nope --num-records 1 --timeout 500", 0, "not available: nope"),
    ("consumer-groups AT --describe --group nope", 0, "Group nope not found"),
    ("consumer-groups AT --delete --group nope", 0, "Group 'nope' could not be deleted"),
    ("consumer-groups AT --delete-offsets --group nope --topic t", 0, f"Error: {NO_GROUP}"),
    ("consumer-groups AT --describe --group nope --output json", 1, "Group nope not found"),
    ("delete-records AT --offset-json-file DELETE", 0, NO_TOPIC),
    ("get-offsets AT --topic nope", 1, "Could not match any topic-partitions"),
    (f"leader-election AT {PREFERRED} --topic nope --partition 0", 1, "No such topic as nope"),
    (f"reassign-partitions AT --generate {TO_MOVE}", 1, "Topic nope not found."),
    ("reassign-partitions AT --execute --reassignment-json-file MOVE", 1, "Topic nope not found."),
    ("replica-verification AT --once --topics-include nope", 1, "No topics found"),
    ("transactions AT describe --transactional-id nope", 1, "`nope`"),
    ("transactions AT describe-producers --topic nope --partition 0", 1, NO_TOPIC),
    ("transactions AT abort --topic nope --partition 0 --start-offset 0", 1, NO_TOPIC),
    ("transactions AT find-hanging --topic nope --partition 0", 1, NO_TOPIC),
    (f"{CONSUMER} --reset-policy none", 1, "no previously committed offset"),
    (f"{CONSUMER} --reset-policy nope", 1, "Invalid value nope for --reset-policy"),
    (f"{CONSUMER} --assignment-strategy org.example.Nope", 1, "org.example.Nope"),
    (f"{CONSUMER} --group-protocol consumer {ASSIGNOR}", 1, "The assignor"),
    (f"{PRODUCER} --command-property {IN_FLIGHT}=6", 1, "`max.in.flight` must be set <= 5"),
    (f"{PRODUCER} --command-property {IN_FLIGHT}=5", 0, "1 records sent"),
    ("dump-log --files nope/00000000000000000000.log", 1, "nope/"),
    ("storage info --config nope.properties", 1, "nope.properties"),
    ("doctor nope", 1, "nope"),
    ("pipeline sink --config nope.toml", 1, "nope.toml: No such file"),
    ("start --config nope.properties", 1, "nope.properties"),
)
"""Command lines that name something that is not there, or that can't be, their exit codes, and what
is said. The codes are those of Apache Kafka's tools where there is one; but its verifiable-consumer
ends with 0 also where it could not read."""

FILES: Final[Mapping[str, str]] = {
    "FILE": '{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}',
    "CONFIG": "client.id=me\n",
    "BAD": "security.protocol=NOPE\n",
    "DELETE": '{"partitions": [{"topic": "nope", "partition": 0, "offset": 0}]}',
    "TOPICS": '{"topics": [{"topic": "nope"}]}',
    "MOVE": '{"partitions": [{"topic": "nope", "partition": 0, "replicas": [1]}]}',
}

ON_STDOUT: Final = "Error while executing groups command : "
"""kafka-groups says there what went wrong, and so does `kavka groups`."""

HEADS: Final = "start.time, end.time, "
"""kafka-consumer-perf-test prints the names of its columns first."""


@pytest.mark.parametrize(
    "words", ["topics --help", "mirror --help", "completion bash", "--help", "start --help"]
)
def test_a_reader_that_has_gone_ends_a_command_quietly(words: str) -> None:
    """As `head` does."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kavka", *words.split()],
            env=kavka_environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode in (0, 1)  # argparse passes over it while it prints


def one_line(capfd: pytest.CaptureFixture[str]) -> str:
    """What is said on standard error; nothing else is printed."""
    said = capfd.readouterr()
    if said.out.startswith(ON_STDOUT):
        said = type(said)("", said.out)
    assert not said.out or (said.out.startswith(HEADS) and said.out.count("\n") == 1)
    assert said.err.count("\n") == 1, said.err
    return said.err


def words(line: str, place: Path) -> list[str]:
    """Those of a command line, with the files that it names."""
    for name, text in FILES.items():
        (place / name).write_text(text)
    return [str(place / word) if word in FILES else word for word in line.split()]


def test_every_tool_is_here() -> None:
    assert {command.name for command in COMMANDS} == ASKING.keys() | OWN | UNLIKE


@pytest.mark.parametrize("name", sorted(ASKING.keys() | UNLIKE))
def test_an_unknown_option(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--frobnicate"]) == 1
    said = one_line(capfd)
    assert "frobnicate" in said
    assert f"`kavka {name} --help` explains the options." in said


def exit_code(line: Sequence[str]) -> int:
    """Of a run, also where argparse ends it."""
    try:
        return main(line)
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code


def said_of(name: str, line: Sequence[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a command says of a wrong line on standard error; the exit code is the right one."""
    assert exit_code([name, *line]) == (2 if name in BY_ARGPARSE else 1)
    if name not in BY_ARGPARSE:
        return one_line(capfd)
    said = capfd.readouterr()
    usage, begin, last = said.err.rpartition("\nkavka")
    assert not said.out and usage.startswith("usage: kavka") and last.count("\n") == 1
    return f"{begin}{last}"


@pytest.mark.parametrize("name", sorted(OWN))
def test_an_unknown_option_of_a_command(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "--frobnicate" in said_of(name, [*BELOW[name].split(), "--frobnicate"], capfd)


@pytest.mark.parametrize("name", sorted(command.name for command in COMMANDS))
def test_a_missing_argument(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if name == "version":
        assert main([name]) == 0
        return
    line, expected = MISSING[name]
    assert expected in said_of(name, words(line, tmp_path), capfd)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False, group_initial_rebalance_delay_ms=0) as broker:
        broker.create_topic("t")
        broker.produce("t", b"a record")
        yield broker


@pytest.mark.parametrize(("line", "code", "expected"), NO_SUCH, ids=lambda value: str(value))
def test_what_is_not_there(
    line: str,
    code: int,
    expected: str,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
    at = line.replace(" AT", f" --bootstrap-server {broker.bootstrap_servers}")
    assert exit_code(words(at, tmp_path)) == code
    said = capfd.readouterr()
    lines = [text for text in said.err.splitlines() if not text.startswith(LIBRARY_S)]
    assert len(lines) <= 1 and expected in said.out + "".join(lines), said
    assert "Traceback" not in said.out + said.err


CONFIGURED: Final = sorted(ASKING.keys() - {"mirror"})
"""Tools with --command-config."""


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_properties_file_that_is_wrong(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ASKING[name].removesuffix(" --command-config CONFIG")
    line = line.replace("127.0.0.1:1", "127.0.0.1:1 --command-config BAD")
    assert main([name, *words(line, tmp_path)]) == 1
    said = one_line(capfd)
    assert "security.protocol" in said and "NOPE" in said


@pytest.mark.parametrize("name", sorted(ASKING))
def test_no_broker_is_there(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, *words(ASKING[name], tmp_path)]) == 1
    said = one_line(capfd)
    assert "127.0.0.1:1" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", sorted(ASKING.keys() - {"replica-verification"}))
def test_an_address_that_is_none(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = ASKING[name].replace("127.0.0.1:1", "nowhere")
    assert main([name, *words(line, tmp_path)]) == 1
    assert "nowhere" in one_line(capfd)


def test_a_replication_factor_that_no_request_can_hold(capfd: pytest.CaptureFixture[str]) -> None:
    line = ["--source", "127.0.0.1:1", "--target", "127.0.0.1:1", "--topic", "t"]
    assert main(["mirror", *line, "--replication-factor", "99999"]) == 1
    assert "it is no number of 16 bits" in one_line(capfd)


def test_ctrl_c_while_a_tool_is_imported_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupt)
    assert main(["topics", "--list"]) == 130
    assert capfd.readouterr() == ("", "")


def test_a_negative_fetch_size_would_compare_for_ever(capfd: pytest.CaptureFixture[str]) -> None:
    line = ["--broker-list", "127.0.0.1:1", "--once", "--fetch-size", "-1"]
    assert main(["replica-verification", *line]) == 1
    assert "--fetch-size is no negative number" in one_line(capfd)


@pytest.mark.parametrize(
    "line",
    [["replica-verification", "--broker-list", "127.0.0.1:1"], ["dump-log", "--files", "x.log"]],
    ids=lambda line: line[0],
)
def test_what_is_no_table_is_not_printed_as_csv(
    line: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*line, "--output", "csv"]) == 1
    assert "--output is one of text, json, not 'csv'" in one_line(capfd)


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("action", ["execute", "cancel"])
def test_an_action_that_prints_text_only_refuses_other_forms(
    action: str, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    line = [*UNREACHABLE.split(), f"--{action}", "--reassignment-json-file", "FILE"]
    assert main(["reassign-partitions", *line, "--output", form]) == 1
    assert f"--{action} prints text only: it has no --output {form}" in one_line(capfd)


ODD: Final = "[[a]"
"""Python warns of this one, with a line of its own source."""

PATTERNS: Final[Mapping[str, str]] = {
    "console-consumer": f"{UNREACHABLE} --include {ODD}",
    "console-producer": f"{UNREACHABLE} --topic t --reader-property headers.separator={ODD}",
    "consumer-perf-test": f"{UNREACHABLE} --num-records 1 --include {ODD}",
    "get-offsets": f"{UNREACHABLE} --topic {ODD}",
    "mirror": f"--source 127.0.0.1:1 --target 127.0.0.1:1 --include {ODD}",
    "replica-verification": f"--broker-list 127.0.0.1:1 --topics-include {ODD}",
    "tap": f"{UNREACHABLE} --listen 127.0.0.1:0 --topic {ODD}",
    "topics": f"{UNREACHABLE} --list --topic {ODD}",
}
"""Tools that take regular expressions."""

ASK_FIRST: Final = frozenset({"console-consumer", "topics"})
"""Those of them that look at one when a broker has answered."""


@pytest.mark.parametrize("name", PATTERNS)
def test_an_odd_regular_expression_is_taken_quietly(name: str) -> None:
    """Nothing but the broker is missing."""
    done = subprocess.run(
        [sys.executable, "-m", "kavka", name, *PATTERNS[name].split()],
        env=kavka_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "127.0.0.1:1" in done.stderr, done.stderr


@pytest.mark.parametrize("name", sorted(PATTERNS.keys() - ASK_FIRST))
def test_what_is_no_regular_expression(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, *PATTERNS[name].replace(ODD, "[[a").split()]) == 1
    assert "[[a is no regular expression: unterminated character set" in one_line(capfd)
