"""Reads the `.properties` format of Java (`java.util.Properties.load`), in UTF-8.

Tested against recorded output of the Java class. One difference: a lone backslash at the end of the
file gives no entry here, and an entry with empty key and value there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Compiled only when a file is read.
_LINE_END: Final = r"\r\n|\r|\n"
_BLANK: Final = " \t\f"
_KEY: Final = r"(?s:((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*)"
_ESCAPE: Final = r"(?s:\\(u[0-9a-fA-F]{4}|.))"
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One entry, and where it begins (lines are counted from 1)."""

    key: str
    value: str
    line: int


class PropertiesError(ValueError):
    """The text is not in the format."""


def parse_properties(data: bytes) -> list[Property]:
    """All entries in the order of the file, repeated keys included. Raises PropertiesError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PropertiesError(f"not UTF-8 at byte {error.start}") from error
    return [_entry(line, number) for line, number in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines with their continuations, without comments and blank lines."""
    gathered = ""
    first = 0
    for number, line in enumerate(re.split(_LINE_END, text), start=1):
        line = line.lstrip(_BLANK)
        if not gathered:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            gathered += line[:-1]
        else:
            yield gathered + line, first
            gathered = ""
    if gathered:
        yield gathered, first


def _entry(line: str, number: int) -> Property:
    split = re.match(_KEY, line)
    assert split is not None  # the pattern matches the empty text too
    try:
        return Property(_unescape(split[1]), _unescape(line[split.end() :]), number)
    except ValueError as error:
        raise PropertiesError(f"line {number}: {error}") from error


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = re.sub(_ESCAPE, _unescaped, text)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        # \uXXXX is UTF-16, so a character beyond 16 bits is a surrogate pair.
        try:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise ValueError("a \\u escape is one half of a pair, the other is missing") from error
    return text


def _unescaped(escape: re.Match[str]) -> str:
    letter = escape[1]
    if len(letter) > 1:
        return chr(int(letter[1:], 16))
    if letter == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _CONTROL.get(letter, letter)
