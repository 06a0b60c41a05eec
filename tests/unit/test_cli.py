"""The command line: the table, the usage errors, and what a command may cost before it runs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
import types
from collections.abc import Sequence

import pytest

from kavka import __version__, cli
from kavka.server.cluster.logger_levels import LEVELS
from support.paths import ROOT

HELP_BUDGET = 4
"""What `kavka --help` may cost over an interpreter that does nothing, as a multiple of that one's
CPU time: which machine runs them makes no difference."""

HEAVY = {"asyncio", "uvloop", "kafka", "cramjam", "kavka.server", "kavka.log", "kavka.wire"}


def _stub_server(monkeypatch: pytest.MonkeyPatch, exit_code: int) -> list[tuple[object, ...]]:
    """Put a `kavka.server.main` in place that notes its calls and returns `exit_code`."""
    calls: list[tuple[object, ...]] = []

    def start(config: str | None, overrides: Sequence[str], *log: object) -> int:
        calls.append((config, list(overrides), *log))
        return exit_code

    stub = types.ModuleType("kavka.server.main")
    monkeypatch.setattr(stub, "main", start, raising=False)
    monkeypatch.setitem(sys.modules, "kavka.server.main", stub)
    return calls


def test_start_hands_its_options_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _stub_server(monkeypatch, exit_code=0)
    arguments = ["start", "--config", "server.properties"]
    arguments += ["--override", "log.dirs=/tmp/a b", "--override", "sasl.jaas.config=a=b;"]

    assert cli.main(arguments) == 0
    settings = ["log.dirs=/tmp/a b", "sasl.jaas.config=a=b;"]
    assert calls == [("server.properties", settings, [], None)]
    log = ["--log-level", "warn", "--log-level", "kavka.request=DEBUG", "--log-file", "a.log"]
    assert cli.main(["start", *log]) == 0
    assert calls[1:] == [(None, [], ["warn", "kavka.request=DEBUG"], "a.log")]


def test_levels_are_checked_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.LEVELS == tuple(LEVELS)
    with pytest.raises(SystemExit) as ended:
        cli.main(["start", "--log-level", "kavka.request=LOUD"])
    assert ended.value.code == 2
    assert "'kavka.request=LOUD' has none of the levels TRACE, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        (["export", "--file", "f"], (("f", None), False, False, None, [])),
        (
            ["import", "--zookeeper", "z:1/k", "--replace", "--config", "c", "--override", "a=b"],
            ((None, "z:1/k"), True, True, "c", ["a=b"]),
        ),
    ],
)
def test_storage_hands_its_options_on(
    arguments: list[str], called: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def move(file: object, zookeeper: object, _: object, **options: object) -> int:
        calls.append(((file, zookeeper), *(options[key] for key in keys)))
        return 3

    keys = ("is_import", "replace", "config", "overrides")
    monkeypatch.setattr("kavka.tools.storage.tool.main", move)
    assert cli.main(["storage", *arguments]) == 3
    assert calls == [called]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a command is missing"),
        (["export"], "--zookeeper --file"),
        (["import", "--file", "f", "--zookeeper", "z"], "can't be used with option"),
        (["export", "--file", "f", "--override", "x"], "'x' is not of the form key=value"),
        (["export", "--file", "f", "s.properties"], "'s.properties' is no option"),
        (["info"], "argument --config is required"),
        (["format", "--config", "c"], "argument --cluster-id is required"),
    ],
)
def test_wrong_words_to_storage_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["storage", *arguments]) == 1
    out, err = capsys.readouterr()
    assert said in err and not out and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["start", "server.properties"], "(did you mean --config server.properties?)"),
        (["start", "log.dirs=x"], "(did you mean --override log.dirs=x?)"),
        (["start", "--configuration", "s.properties"], ""),
        (["version", "s.properties"], ""),
    ],
)
def test_a_file_without_option_is_pointed_to_it(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    printed = capsys.readouterr().err
    assert ended.value.code == 2
    assert "unrecognized arguments: " in printed
    assert hint in printed
    assert bool(hint) == ("did you mean" in printed)


def test_start_needs_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _stub_server(monkeypatch, exit_code=0)

    assert cli.main(["start"]) == 0
    assert calls == [(None, [], [], None)]


@pytest.mark.parametrize(("name", "reported"), [("cramjam", True), ("kavka.server.gone", False)])
def test_a_package_that_is_missing_is_reported_in_one_line(
    name: str, reported: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(attribute: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    stub = types.ModuleType("kavka.server.main")
    monkeypatch.setattr(stub, "__getattr__", fail, raising=False)
    monkeypatch.setitem(sys.modules, "kavka.server.main", stub)
    if reported:
        assert cli.main(["start"]) == 1
        printed = capsys.readouterr().err
        assert printed.startswith("kavka: No module named 'cramjam': install what Kavka depends on")
    else:  # a fault of Kavka's own, whose traceback is of use
        with pytest.raises(ModuleNotFoundError):
            cli.main(["start"])


def test_the_commands_result_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    _stub_server(monkeypatch, exit_code=1)

    assert cli.main(["start"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["strat"], "no command strat (did you mean start?)"),
        (["start", "--override", "log.dirs"], "'log.dirs' is not of the form key=value"),
        (["start", "--override", "=/data"], "'=/data' is not of the form key=value"),
        (["start", "--conf", "x"], "--conf"),
        (["start", "server.properties"], "server.properties"),
    ],
)
def test_wrong_usage_is_named_on_stderr_with_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)

    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = cli.main(arguments)
    except SystemExit as stop:  # argparse's own --version
        code = stop.code

    assert code == 0
    assert capsys.readouterr().out == f"kavka {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])

    out = " ".join(capsys.readouterr().out.split())  # long lines are wrapped
    assert stop.value.code == 0
    for command in cli.COMMANDS:
        assert command.name in out
        assert command.summary in out


def test_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        try:
            code: object = cli.main([command.name, "--help"])
        except SystemExit as stop:  # argparse's
            code = stop.code
        out = capsys.readouterr().out
        assert code == 0
        assert command.description.splitlines()[0] in out


def test_commands_are_named_once() -> None:
    names = [command.name for command in cli.COMMANDS]
    assert len(names) == len(set(names))


def test_options_of_one_command_do_not_reach_another() -> None:
    parser = argparse.ArgumentParser()
    next(row for row in cli.COMMANDS if row.name == "version").add_options(parser)
    assert parser.parse_args([]) == argparse.Namespace()


def test_help_imports_no_part_of_the_broker() -> None:
    program = (
        "import sys\n"
        "sys.argv = ['kavka', 'start', '--help']\n"
        "from kavka.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0
    assert HEAVY.isdisjoint(done.stderr.split())


def test_python_m_kavka_runs_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "--version"],
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"kavka {__version__}\n")


def test_help_is_quick() -> None:
    bare = _least_cpu_s([sys.executable, "-c", "pass"])
    of_help = _least_cpu_s([sys.executable, "-m", "kavka", "start", "--help"])
    assert of_help - bare < HELP_BUDGET * bare


def _environment() -> dict[str, str]:
    """This process's environment with its import path, so that an uninstalled tree works too."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _least_cpu_s(command: list[str]) -> float:
    """CPU seconds of the cheapest of five runs; load on the machine hardly moves it."""
    spent: list[float] = []
    for _ in range(5):
        with open(os.devnull, "w") as nowhere:
            child = subprocess.Popen(command, stdout=nowhere, env=_environment())
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        spent.append(usage.ru_utime + usage.ru_stime)
    return min(spent)


def test_tools_are_named_as_their_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apache Kafka's, without .sh."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scripts = {name for name in project["scripts"] if name != "kavka"}
    names = [row[-2] for row in (*cli.TOOLS, *cli.FILE_TOOLS, *cli.CLIENT_TOOLS)]
    assert scripts == {f"kavka-{name}" for name in (*names, "storage")}
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kavka-get-offsets", "--version"])
    assert cli.script() == 0
