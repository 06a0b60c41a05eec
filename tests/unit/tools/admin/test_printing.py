"""Tables for programs."""

from __future__ import annotations

import csv
import io

import pytest

from kavka.tools.admin.printing import print_csv, print_tabbed, print_table

ODD = ("a,b", 'a"b', "a\rb", "a\nb", "a\r\nb", " ", "", "a\tb", "ä", "a\x0bb", "\r", "\n")


def test_any_text_is_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("name", "number"), ((text, number) for number, text in enumerate(ODD)))
    printed = capsys.readouterr().out
    rows = list(csv.reader(io.StringIO(printed, newline="")))
    assert rows == [["name", "number"], *([text, str(number)] for number, text in enumerate(ODD))]


def test_lines_end_as_in_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(("a", "b"), [("c", 1)])
    assert capsys.readouterr().out == "a,b\nc,1\n"


def test_columns_are_as_wide_as_java_s(capsys: pytest.CaptureFixture[str]) -> None:
    """Which counts units of UTF-16."""
    rows = [("\U0001f600", "a"), ("b", "c")]
    print_table((4, 0), rows)
    print_tabbed(("x", "y"), rows)
    assert capsys.readouterr().out == (
        "\U0001f600   a\nb    c\nx \ty\t\n\U0001f600\ta\t\nb \tc\t\n"
    )
