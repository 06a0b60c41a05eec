"""Tables for programs."""

from __future__ import annotations

import csv
import io

import pytest

from kavka.tools.admin.printing import print_csv

ODD = ("a,b", 'a"b', "a\rb", "a\nb", "a\r\nb", " ", "", "a\tb", "ä", "a\x0bb", "\r", "\n")


def test_any_text_is_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("name", "number"), ((text, number) for number, text in enumerate(ODD)))
    printed = capsys.readouterr().out
    rows = list(csv.reader(io.StringIO(printed, newline="")))
    assert rows == [["name", "number"], *([text, str(number)] for number, text in enumerate(ODD))]


def test_lines_end_as_in_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("a", "b"), [("c", 1)])
    assert capsys.readouterr().out == "a,b\nc,1\n"
