"""The command line of `kavka compat`."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from kavka.compat_tests import command, protocol
from kavka.compat_tests.broker import Broker
from kavka.compat_tests.clients.table import Client
from kavka.compat_tests.command import UnderTest, main
from kavka.compat_tests.raw.survey import Unsuitable
from kavka.compat_tests.results import ProtocolRow, load, save
from kavka.compat_tests.scenario import Scenario, Trial
from kavka.tools.admin.cluster_client import ClusterClient
from unit.compat_tests.test_reports import RESULTS
from unit.compat_tests.test_suite import client, missing


def test_it_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    output = capsys.readouterr().out
    assert "kafka-python" in output
    assert "many-partitions" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--clients", "kafka-pithon"], "did you mean kafka-python"),
        (["--without", "kafka-pithon"], "did you mean kafka-python"),
        (["--scenarios", "xyzzy"], "--list has the names"),
        (["--jobs", "0"], "is not a number from 1 on"),
        (["--compare", "/nowhere/a.json", "/nowhere/b.json"], "No such file"),
    ],
)
def test_what_makes_no_sense_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_results_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    save(RESULTS, path)
    assert main(["--compare", str(path), str(path)]) == 0
    assert "| One 1.0 | ✓ | ✗ |" in capsys.readouterr().out


def test_a_comparison_is_written_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    save(RESULTS, path)
    named = {form: tmp_path / f"both.{form}" for form in ("json", "html", "markdown")}
    files = [word for form, name in named.items() for word in (f"--{form}", str(name))]
    assert main(["--compare", str(path), str(path), *files]) == 0
    assert not capsys.readouterr().out
    assert "a &lt;broker&gt; beside a &lt;broker&gt;" in named["html"].read_text()
    assert "# a <broker> beside a <broker>" in named["markdown"].read_text()
    found = json.loads(named["json"].read_text())
    assert found["brokers"] == ["a <broker>", "a <broker>"]
    assert found["protocol"][2]["found"][0]["reasons"] == ["'a case', step 1: <1>"]


# -- a run, with brokers that are never asked ---------------------------------------------------


def lent(bootstrap: str) -> UnderTest:
    return nullcontext(Broker(bootstrap, cast(ClusterClient, None)))


class Run:
    """`kavka compat` of one client, one scenario and a protocol part, which say what they do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, json_path: Path) -> None:
        self.did: list[str] = []
        self.beside: asyncio.Event | None = None
        self.json_path = json_path
        self.lack = ""
        scenarios = (Scenario("one", "One", self.scenario),)
        clients = (client(), Client("absent", "Absent", "Go", missing))
        monkeypatch.setattr(command, "SCENARIOS", scenarios)
        monkeypatch.setattr(command, "CLIENTS", clients)
        monkeypatch.setattr(protocol, "rows", self.rows)
        monkeypatch.setattr(command, "time", Mock(monotonic=Mock(side_effect=[10.0, 500.0])))

    async def scenario(self, trial: Trial) -> None:
        self.did.append(f"scenario on {trial.broker.bootstrap}")
        if self.beside is not None:
            self.beside.set()

    async def rows(self, bootstrap: str, *more: object) -> list[ProtocolRow]:
        if self.lack:
            raise Unsuitable(self.lack)
        if self.beside is not None:
            async with asyncio.timeout(60):
                await self.beside.wait()
        self.did.append(f"protocol on {bootstrap}")
        return [ProtocolRow("Fetch", 4, "passed", 1)]

    def __call__(self, *words: str, separate: bool) -> int:
        if separate:
            self.beside = asyncio.Event()
        words = ("--json", str(self.json_path), *words)
        return main(
            words, lambda: lent("own:1"), None, (lambda: lent("own:2")) if separate else None
        )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return Run(monkeypatch, tmp_path / "results.json")


def test_the_protocol_is_tried_beside_the_clients_on_a_broker_of_its_own(run: Run) -> None:
    assert run(separate=True) == 0
    assert run.did == ["scenario on own:1", "protocol on own:2"]
    found = load(run.json_path)
    assert found.seconds == 490.0, "all of it is timed"
    assert found.protocol == [ProtocolRow("Fetch", 4, "passed", 1)]


def test_the_protocol_comes_first_where_there_is_one_broker(run: Run) -> None:
    assert run(separate=False) == 0
    assert run.did == ["protocol on own:1", "scenario on own:1"]
    assert load(run.json_path).seconds == 490.0


def test_a_broker_without_the_protocol_part_is_tried_with_clients(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.lack = "the broker is one of several"
    assert run(separate=False) == 0
    assert run.did == ["scenario on own:1"]
    assert load(run.json_path).without_protocol == run.lack
    assert f"The protocol, without clients: {run.lack}" in capsys.readouterr().out


def test_apis_that_were_asked_for_by_name_must_be_tried(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.lack = "the broker is one of several"
    assert run("--apis", "Fetch", separate=False) == 1
    assert run.lack in capsys.readouterr().err


def test_a_client_that_is_left_out_says_what_it_needs(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(separate=False) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "unavailable:" in line]
    assert line.split()[3:] == ["absent", "one", "unavailable:", "needs", "a", "toolchain"], line
    assert lines[-2] == "absent: needs a toolchain"


def test_a_broker_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--bootstrap", "127.0.0.1:1", "--scenarios", "plain"]
    words += ["--clients", "kafka-python,aiokafka", "--without", "aiokafka"]
    assert main(words) == 1
    assert "no broker answers" in capsys.readouterr().err
