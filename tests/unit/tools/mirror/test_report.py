"""What the mirror says of its progress."""

from __future__ import annotations

import pytest

from kavka.tools.mirror.report import Repeated, Report


def test_what_fails_again_and_again_is_said_once_until_it_changes_or_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = Repeated(Report(None))
    for text in ("no broker", "no broker", "no leader", "no leader", "no broker"):
        looks.say(text)
    looks.is_over()
    looks.say("no broker")
    said = capsys.readouterr().err.split("\n")
    assert said == ["no broker", "no leader", "no broker", "no broker", ""]
