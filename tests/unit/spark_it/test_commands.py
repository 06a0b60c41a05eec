"""`kavka pipeline` and `kavka spark`, as far as they go without Spark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import MISSING
from pathlib import Path

import pytest

from kavka import cli
from kavka.spark_it import commands
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import build, read_file, rows


@pytest.mark.parametrize("name", commands.PIPELINES)
def test_each_pipeline_has_help_and_an_example(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    module = commands.module_of(name)
    with pytest.raises(SystemExit) as stop:
        cli.main(["pipeline", name, "--help"])
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    for row in rows(module.Options):
        assert row.flag in shown
        assert row.default is MISSING or not row.required
    path = tmp_path / "p.toml"
    assert cli.main(["pipeline", "init", name, "--output", str(path)]) == 0
    given = read_file(str(path))
    assert {row.name for row in rows(module.Options) if row.required} <= set(given)


def test_an_example_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sink.toml"
    path.write_text("mine")
    assert cli.main(["pipeline", "init", "sink", "--output", str(path)]) == 1
    assert path.read_text() == "mine"
    assert f"{path} exists already" in capsys.readouterr().err


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    options = commands.module_of("sink").Options
    path = tmp_path / "p.toml"
    path.write_text(
        'bootstrap-server = "a:1"\ntopics = ["t"]\ntable = "x"\n[kafka]\n"a.b" = 1\nc = 2\n'
    )
    given = {"table": "y", "kafka": ["c=3"], "rejects": None}
    found = build(options, commands.merged(options, str(path), given))
    assert (found.bootstrap_server, found.table, found.rejects) == ("a:1", "y", None)
    assert found.kafka == {"a.b": "1", "c": "3"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--tabel", "x"], "unknown option --tabel, did you mean --table?"),
        ([], "missing: bootstrap_server (--bootstrap-server), table (--table)"),
        (
            ["--bootstrap-server", "a:1", "--table", "x"],
            "give either topics or topic_pattern (--topics, --topic-pattern)",
        ),
        (["--compact-every", "often"], "compact_every: 'often' is not a whole number"),
        (["--config", "not-there.toml"], "not-there.toml: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pipeline", "sink", *words]) == 1
    assert capsys.readouterr().err == f"kavka: {error}\n"


def test_an_unknown_pipeline_names_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["pipeline", "snk"])
    assert stop.value.code == 2
    assert "'sink'" in capsys.readouterr().err


def test_a_file_s_mistake_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('tabel = "x"\n')
    options = commands.module_of("sink").Options
    with pytest.raises(SparkError, match=f"^{path}: unknown option tabel, did you mean table"):
        commands.merged(options, str(path), {})


def test_options_are_read_without_pyspark() -> None:
    """`kavka pipeline NAME --help` answers at once, and where PySpark is not installed."""
    script = (
        "import sys; from kavka import cli\n"
        f"for name in {commands.PIPELINES!r}:\n"
        "    try: cli.main(['pipeline', name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
