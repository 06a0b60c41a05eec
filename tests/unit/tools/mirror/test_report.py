"""What the mirror says of its progress."""

from __future__ import annotations

import sys

import pytest

from kavka.tools.mirror.report import Repeated, Report
from support.broker import kavka_environment
from support.terminal import on_terminal, screen


def test_what_fails_again_and_again_is_said_once_until_it_changes_or_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = Repeated(Report(None))
    for text in ("no broker", "no broker", "no leader", "no leader", "no broker"):
        looks.say(text)
    looks.is_over()
    looks.say("no broker")
    lines = capsys.readouterr().err.split("\n")
    assert lines == ["no broker", "no leader", "no broker", "no broker", ""]


def test_there_is_no_summary_before_it_is_known_what_is_copied(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Report(None)
    found.looked({("t", 0): 9, ("t", 1): 3})
    found.end()
    assert capsys.readouterr().out == ""
    found.begins_at(lambda topic_partition: 9 if topic_partition == ("t", 0) else None)
    found.end()
    _, *rows, last = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [["t", "0", "0", "9", "0"], ["t", "1", "0", "0", "3"]]
    assert last == "0 records copied, 3 offsets behind."


def test_a_later_session_does_not_undo_what_was_copied() -> None:
    found = Report(None)
    found.looked({("t", 0): 9})
    found.copied({("t", 0): 4}, {("t", 0): 4})
    found.begins_at(lambda _: None)
    assert found.lag == 5


def test_a_property_without_effect_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = Report(None)
    for names in (["b", "a"], ["a"], ["c", "b"]):
        found.without_effect(names)
    warnings = [f"The property {name} has no effect here." for name in "abc"]
    assert capsys.readouterr().err.splitlines() == warnings


COPYING = """
from kavka.tools import progress

progress.SHOWN_AFTER_S = progress.DRAWN_EVERY_S = 0
from kavka.tools.mirror.report import Report

report = Report({form!r})
report.looked({{("t", 0): 9}})
report.copied({{("t", 0): 4}}, {{("t", 0): 4}})
report.warn("begins anew: no broker")
report.copied({{("t", 0): 5}}, {{("t", 0): 9}})
report.end()
"""


def test_a_line_on_a_terminal_shows_how_far_it_is() -> None:
    script = COPYING.format(form=None)
    ran = on_terminal([sys.executable, "-c", script], kavka_environment())
    assert ran.exit_code == 0, ran
    for copied, to_go in ((4, 5), (9, 0)):
        assert f"{copied} records copied, " in ran.terminal
        assert f"a second; {to_go} to go; 1 partitions" in ran.terminal
    assert screen(ran.terminal) == ["begins anew: no broker"]
    assert "9 records copied, 0 offsets behind." in ran.out and "a second" not in ran.out


def test_no_line_beside_json() -> None:
    script = COPYING.format(form="json")
    ran = on_terminal([sys.executable, "-c", script], kavka_environment())
    assert (ran.exit_code, ran.terminal) == (0, "begins anew: no broker\r\n")
