from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.server.monitoring.process_log import start_log

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (\w+) (.*) \(kavka\.test\.(\w)\)")


@pytest.fixture(autouse=True)
def own_levels(own_log: None) -> Iterator[None]:
    """Logging as in a process of its own, and afterwards as it was."""
    yield
    for name in "ab":
        logging.getLogger(f"kavka.test.{name}").setLevel(logging.NOTSET)


def begin(levels: list[str], path: Path | None) -> logging.Handler:
    """`start_log` in a process that has no log yet: pytest's own handlers are put aside."""
    logging.root.handlers.clear()
    start_log(levels, None if path is None else str(path))
    (handler,) = logging.root.handlers
    return handler


def say() -> None:
    for name in "ab":
        for level in (5, 10, 20, 30):
            logging.getLogger(f"kavka.test.{name}").log(level, "said at %d", level)


def lines(text: str) -> list[tuple[str, ...]]:
    return [tuple(found.groups()) for line in text.splitlines() if (found := LINE.fullmatch(line))]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([], ["INFO a", "WARNING a", "INFO b", "WARNING b"]),
        (["warn"], ["WARNING a", "WARNING b"]),
        (["FATAL", "kavka.test.b=TRACE"], ["TRACE b", "DEBUG b", "INFO b", "WARNING b"]),
    ],
)
def test_lines_from_a_level_on(
    levels: list[str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    begin(levels, None)
    say()
    assert [f"{level} {name}" for level, _, name in lines(capsys.readouterr().err)] == said


def test_a_file_that_is_moved_away_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "kavka.log"
    handler = begin(["kavka.test.a=FATAL"], path)
    say()
    path.rename(tmp_path / "kavka.log.1")
    say()
    expected = [("INFO", "said at 20", "b"), ("WARNING", "said at 30", "b")]
    for name in ("kavka.log", "kavka.log.1"):
        assert lines((tmp_path / name).read_text()) == expected
    handler.close()


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="LOUD is not a log level: there are TRACE, DEBUG"):
        start_log(["LOUD"], None)
    with pytest.raises(OSError, match="No such file"):
        start_log([], str(tmp_path / "none" / "kavka.log"))
