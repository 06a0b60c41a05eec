"""The command line of `kavka compat`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.compat_tests.command import main
from kavka.compat_tests.results import save
from unit.compat_tests.test_reports import RESULTS


def test_it_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert "kafka-python" in said
    assert "many-partitions" in said


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


def test_a_broker_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--bootstrap", "127.0.0.1:1", "--scenarios", "plain"]
    words += ["--clients", "kafka-python,aiokafka", "--without", "aiokafka"]
    assert main(words) == 1
    assert "no broker answers" in capsys.readouterr().err
