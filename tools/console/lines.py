"""Records from lines, as Apache Kafka's LineMessageReader reads them.

A line is `headers delimiter key separator value`, of which headers and key are there if the
properties `parse.headers` and `parse.key` say so; headers are `name:value,name:value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.patterns import user_pattern

DEFAULTS: Final = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}


class Line(NamedTuple):
    """What becomes a record."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Reads lines by its properties."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Failed if the properties contradict each other."""
        texts = {**DEFAULTS, **properties}
        self._parses_key = _is_true(properties, "parse.key")
        self._parses_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._key_separator = texts["key.separator"]
        self._delimiter = texts["headers.delimiter"]
        self._header_key_separator = texts["headers.key.separator"]
        self._null = texts.get("null.marker")
        self._separator = user_pattern(texts["headers.separator"], "headers.separator")
        _refuse_equals(texts)

    def read(self, lines: Iterable[str]) -> Iterator[Line]:
        """A record for each line. Failed at a line that has not what it should have."""
        for number, line in enumerate(lines, start=1):
            yield self._record(line.removesuffix("\n"), number)

    def _record(self, line: str, number: int) -> Line:
        headers: str | None
        rest = line
        found: list[tuple[str, bytes | None]] = []
        if self._parses_headers:
            headers, rest = self._split(line, line, self._delimiter, "headers delimiter", number)
            if headers is not None and headers != self._null:
                found = [self._header(pair, number) for pair in _pieces(self._separator, headers)]
        key = None
        if self._parses_key:
            key, rest = self._split(line, rest, self._key_separator, "key separator", number)
        return Line(self._bytes(key), self._bytes(rest), found)

    def _split(
        self, line: str, rest: str, separator: str, part: str, number: int
    ) -> tuple[str | None, str]:
        """Before and behind the separator; nothing before it where there is none."""
        before, found, behind = _partition(rest, separator)
        if found:
            return before, behind
        if self._ignores_errors:
            return None, rest
        raise Failed(f"No {part} found on line number {number}: '{line}'")

    def _header(self, pair: str, number: int) -> tuple[str, bytes | None]:
        name, found, value = _partition(pair, self._header_key_separator)
        if not found:
            if self._ignores_errors:
                return pair, None
            raise Failed(f"No header key separator found in pair '{pair}' on line number {number}")
        if name == self._null:
            raise Failed(
                f"Header keys should not be equal to the null marker '{self._null}' as they can't "
                "be null"
            )
        return name, self._bytes(value)

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode(errors="replace")


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _partition(text: str, separator: str) -> tuple[str, bool, str]:
    """As `str.partition`, but an empty separator is found at once, as Java does."""
    if not separator:
        return "", True, text
    before, found, behind = text.partition(separator)
    return before, bool(found), behind


def _pieces(pattern: re.Pattern[str], text: str) -> list[str]:
    """What is between the matches, as Java's Pattern.split: without empty pieces at the end."""
    pieces, end = [], 0
    for match in pattern.finditer(text):
        if match.end():
            pieces.append(text[end : match.start()])
            end = match.end()
    if not pieces:
        return [text]
    pieces.append(text[end:])
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces


def _refuse_equals(texts: Mapping[str, str]) -> None:
    delimiter, separator = texts["headers.delimiter"], texts["headers.separator"]
    key_separator, null = texts["headers.key.separator"], texts.get("null.marker")
    for first, second, names in (
        (delimiter, separator, "headers.delimiter and headers.separator"),
        (delimiter, key_separator, "headers.delimiter and headers.key.separator"),
        (separator, key_separator, "headers.separator and headers.key.separator"),
        (texts["key.separator"], null, "null.marker and key.separator"),
        (separator, null, "null.marker and headers.separator"),
        (delimiter, null, "null.marker and headers.delimiter"),
        (key_separator, null, "null.marker and headers.key.separator"),
    ):
        if first == second:
            raise Failed(f"{names} may not be equal")
