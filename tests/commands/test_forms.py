"""`--output json` and `csv` of every command: it prints that, or refuses it in one line."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from kavka.cli import COMMANDS, _modules, main
from kavka.tools.admin import reassign_partitions
from kavka.tools.admin.consumer_group_options import ACTIONS as OF_GROUPS
from kavka.tools.storage.tool import storage_tool
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.process import running

HONOURED: Final = (
    "acls --list",
    "broker-api-versions",
    "cluster cluster-id",
    "cluster list-endpoints",
    "configs --describe --topic t",
    "consumer-groups --list",
    "consumer-groups --describe --all-groups",
    "consumer-groups --delete --group g",
    "consumer-groups --delete-offsets --group g --topic t",
    "consumer-groups --reset-offsets --group g --topic t --to-earliest --dry-run",
    "delegation-tokens --create --max-life-time-period -1 --command-config CONFIG",
    "delegation-tokens --describe --command-config CONFIG",
    "delegation-tokens --expire --expiry-time-period -1 --hmac aGk= --command-config CONFIG",
    "delegation-tokens --renew --renew-time-period -1 --hmac aGk= --command-config CONFIG",
    "delete-records --offset-json-file OFFSETS",
    "doctor",
    "features describe",
    "features feature-dependencies --feature transaction.version=2",
    "features version-mapping",
    "get-offsets",
    "groups --list",
    "leader-election --election-type preferred --all-topic-partitions",
    "log-dirs --describe",
    "reassign-partitions --generate --topics-to-move-json-file TOPICS --broker-list 1",
    "reassign-partitions --list",
    "reassign-partitions --verify --reassignment-json-file MOVES",
    "storage feature-dependencies --feature transaction.version=2",
    "storage info --override log.dirs=DIRECTORY",
    "storage random-uuid",
    "storage version-mapping",
    "topics --describe",
    "topics --list",
    "transactions describe --transactional-id x",
    "transactions describe-producers --topic t --partition 0",
    "transactions find-hanging --topic t",
    "transactions list",
)
"""What lists or describes, or has results."""

TEXT_ONLY: Final = (
    "acls --add --allow-principal User:a --operation Read --topic t",
    "acls --remove --topic t --force",
    "cluster unregister --id 7",
    "configs --alter --topic t --add-config retention.ms=1000",
    "consumer-groups --validate-regex a.*",
    "features disable --feature group.version",
    "features downgrade --feature group.version=0",
    "features upgrade --feature group.version=1",
    "reassign-partitions --cancel --reassignment-json-file MOVES",
    "reassign-partitions --execute --reassignment-json-file MOVES",
    "storage export --file FILE --override log.dirs=DIRECTORY",
    "storage format --cluster-id 4L6g3nShT-eMCtK--X86sw --override log.dirs=NEW",
    "storage import --file FILE --override log.dirs=DIRECTORY",
    "topics --alter --topic t --partitions 9",
    "topics --create --topic new",
    "topics --delete --topic t",
    "transactions abort --topic t --partition 0 --start-offset 0",
    "transactions forceTerminateTransaction --transactionalId x",
)
"""What only acts."""

LINES: Final = (
    "dump-log --files SEGMENT",
    "mirror --source 127.0.0.1:1 --target 127.0.0.1:1 --topic t",
    "replica-verification --once --topics-include t",
    "tap --listen 127.0.0.1:0",
)
"""What prints a line of JSON for each of many things, and no table."""

WITHOUT: Final = (
    *("console-consumer --topic t", "console-producer --topic t", "compat", "completion bash"),
    *(
        "consumer-perf-test --topic t --num-records 1",
        "dev",
        "pipeline sink --config x",
        "spark fetch-jars",
    ),
    "e2e-latency --topic t --num-records 1 --producer-acks 1 --record-size 1",
    "producer-perf-test --topic t --num-records 1 --record-size 1 --throughput -1",
    *("start", "verifiable-consumer --topic t --group-id g", "verifiable-producer --topic t"),
    "version",
)
"""Commands without the option."""

ASK_NONE: Final = frozenset(
    {"storage", "dump-log", "mirror", "compat", "completion", "dev", "pipeline", "spark", "start"}
    | {"version"}
)
NOT_BUILT: Final = ("acls", "delegation-tokens")
"""Kavka's brokers refuse these, with a line on standard error."""

COLUMN: Final = re.compile("[a-zA-Z]+")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What the command lines name, and a broker's address."""
    place = tmp_path_factory.mktemp("broker")
    partition = {"topic": "t", "partition": 0}
    contents: Mapping[str, Any] = {
        "OFFSETS": {"partitions": [{**partition, "offset": 0}], "version": 1},
        "TOPICS": {"topics": [{"topic": "t"}], "version": 1},
        "MOVES": {"partitions": [{**partition, "replicas": [1]}], "version": 1},
    }
    for name, content in contents.items():
        (place / name).write_text(json.dumps(content))
    (place / "CONFIG").write_text("client.id=me\n")
    kavka = Kavka(place, {"group.initial.rebalance.delay.ms": "0"})
    with running([kavka]):
        create_topic(kavka.bootstrap, "t", 1)
        of_id_x = {"bootstrap.servers": kavka.bootstrap, "transactional.id": "x"}
        Producer(of_id_x).init_transactions()
        yield {
            **{name: str(place / name) for name in (*contents, "CONFIG", "FILE", "NEW")},
            "DIRECTORY": str(kavka.data_dir),
            "SEGMENT": str(kavka.data_dir / "t-0" / f"{0:020}.log"),
            "BROKER": kavka.bootstrap,
        }


def ran(line: str, form: str, files: Mapping[str, str]) -> int:
    """The exit code."""
    name, *rest = line.split()
    words = [
        re.sub("[A-Z]{3,}$", lambda match: files.get(match[0], match[0]), word) for word in rest
    ]
    command = [words.pop(0)] if name == "cluster" else []
    address = [] if name in ASK_NONE else ["--bootstrap-server", files["BROKER"]]
    try:
        return main([name, *command, *address, *words, "--output", form])
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code


def check_json(text: str) -> None:
    assert isinstance(json.loads(text), dict)


def check_csv(text: str) -> None:
    columns, *rows = csv.reader(io.StringIO(text))
    assert all(map(COLUMN.fullmatch, columns)), columns
    assert all(len(row) == len(columns) for row in rows), text


def assert_one_line(said: Any, expected: str) -> None:
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert expected in said.err


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("line", HONOURED)
def test_what_lists_or_describes_prints_it(
    line: str, form: str, files: Mapping[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    exit_code = ran(line, form, files)
    said = capfd.readouterr()
    if line.startswith(NOT_BUILT):
        assert exit_code == 1
        assert_one_line(said, "")
        return
    (check_json if form == "json" else check_csv)(said.out)


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("line", TEXT_ONLY)
def test_what_only_acts_refuses_it_and_does_nothing(
    line: str, form: str, files: Mapping[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ran(line, form, files) == 1
    assert_one_line(capfd.readouterr(), f" prints text only: it has no --output {form}. `kavka ")
    assert not Path(files["NEW"]).exists() and not Path(files["FILE"]).exists()
    assert (
        main(["topics", "--bootstrap-server", files["BROKER"], "--list", "--exclude-internal"]) == 0
    )
    assert capfd.readouterr().out == "t\n"


@pytest.mark.parametrize("line", LINES)
def test_what_is_no_table_refuses_csv(
    line: str, files: Mapping[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ran(line, "csv", files) == 1
    assert_one_line(capfd.readouterr(), "--output is one of text, json, not 'csv'")


@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith(("mirror", "tap"))])
def test_and_prints_lines_of_json(
    line: str, files: Mapping[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ran(line, "json", files) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines or line.startswith("dump-log"), "an empty segment has none"
    for printed in lines:
        check_json(printed)


@pytest.mark.parametrize("line", WITHOUT)
def test_without_the_option_it_is_refused(
    line: str, files: Mapping[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ran(line, "json", files) in (1, 2)
    said = capfd.readouterr()
    assert said.out == ""
    assert "output" in said.err.splitlines()[-1]


def actions(name: str) -> Sequence[str]:
    """What a tool can be asked to do."""
    modules = {name: module for name, _, module in _modules()}
    tool = (
        storage_tool(lambda *_: pytest.fail("no session"))
        if name == "storage"
        else import_module(f"kavka.tools.{modules[name]}").TOOL
    )
    commands = [command.name for command in getattr(tool, "commands", ())]
    more = {
        "configs": ("alter", "describe"),
        "consumer-groups": OF_GROUPS,
        "reassign-partitions": tuple(reassign_partitions.NEEDED),
    }
    if name in ("acls", "delegation-tokens", "topics"):
        more[name] = import_module(f"kavka.tools.{modules[name]}").ACTIONS
    text_only = [option.name for option in tool.options if option.text_only]
    return [*commands, *(f"--{action}" for action in {*more.get(name, ()), *text_only})]


def test_every_command_and_every_action_is_here() -> None:
    lines = [*HONOURED, *TEXT_ONLY, *LINES, *WITHOUT]
    assert {line.split()[0] for line in lines} == {command.name for command in COMMANDS}
    for name in ("storage", *(name for name, *_ in _modules())):
        for action in actions(name):
            assert any(line.split()[:2] == [name, action] for line in lines), (name, action)
