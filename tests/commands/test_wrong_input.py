"""Whatever is wrong with a command line, one line says so, and the exit code is the documented one:
1 of tools, 2 of `kavka`'s own commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from kavka.cli import COMMANDS, main
from support.broker import kavka_environment

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
    (place / "FILE").write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    (place / "CONFIG").write_text("client.id=me\n")
    return [str(place / word) if word in ("FILE", "CONFIG") else word for word in line.split()]


def test_every_tool_is_here() -> None:
    assert {command.name for command in COMMANDS} == ASKING.keys() | OWN | UNLIKE


@pytest.mark.parametrize("name", sorted(ASKING.keys() | UNLIKE))
def test_an_unknown_option(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--frobnicate"]) == 1
    said = one_line(capfd)
    assert "frobnicate" in said
    assert f"`kavka {name} --help` explains the options." in said


@pytest.mark.parametrize("name", sorted(OWN - {"spark", "pipeline", "completion"}))
def test_an_unknown_option_of_a_command(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--frobnicate"])
    assert ended.value.code == 2
    assert "error: " in capfd.readouterr().err.splitlines()[-1]


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
    assert "no table: --output is text or json" in one_line(capfd)


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("action", ["execute", "cancel"])
def test_an_action_that_prints_text_only_refuses_other_forms(
    action: str, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    line = [*UNREACHABLE.split(), f"--{action}", "--reassignment-json-file", "FILE"]
    assert main(["reassign-partitions", *line, "--output", form]) == 1
    assert f"--{action} prints text only: --output {form} is for --generate, --verify" in one_line(
        capfd
    )
