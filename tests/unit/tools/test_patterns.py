"""A user's regular expression: Python's, without Python's warnings, and refused in one line."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.patterns import user_pattern

ODD = ("[[a]", "[a||b]", "[a&&b]", "[a~~b]")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Python warns of an expression once only, as long as it remembers that."""
    re.purge()
    yield


def test_python_itself_warns_of_them() -> None:
    for text in ODD:
        with pytest.warns(FutureWarning):
            re.compile(text)


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("suffix", ["", r"\Z"])
def test_no_warning_of_what_may_be_read_otherwise_one_day(text: str, suffix: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert user_pattern(text, suffix=suffix).match("a")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "unterminated character set"),
        ("[[a", "unterminated character set"),
        ("*", "nothing to repeat"),
        ("a{99999999999}", "the repetition number is too large"),
        ("(" * sys.getrecursionlimit() + ")" * sys.getrecursionlimit(), "it is nested too deep"),
    ],
)
def test_what_is_none(text: str, why: str) -> None:
    with pytest.raises(Failed) as failed:
        user_pattern(text, "--include")
    assert str(failed.value).startswith(f"--include {text} is no regular expression: {why}")


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("a|ab", "ab", True),
        ("a|ab", "abc", False),
        ("(?i)a|b", "B", True),
        ("(?i)a|b", "Bb", False),
    ],
)
def test_a_suffix_is_of_all_of_it(text: str, name: str, matches: bool) -> None:
    assert (user_pattern(text, suffix=r"\Z").match(name) is not None) is matches
