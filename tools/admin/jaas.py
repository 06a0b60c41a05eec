"""Reads `sasl.jaas.config` of a Java client: MODULE required name="value" ..;"""

from __future__ import annotations

import re
from typing import Final

from kavka.tools.admin.errors import Failed

SETTING: Final = "sasl.jaas.config"
EXAMPLE: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="secret";'
)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?: "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
    | (?P<word>[^\s=;"']+) | (?P<sign>[=;]) )""",
    re.VERBOSE | re.DOTALL,
)
_SKIPPED: Final = re.compile(r"(?:\s|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
"""Blanks and comments, which Java's tokenizer knows."""

_ESCAPED: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def jaas_options(text: str) -> dict[str, str]:
    """The options of the first login module. Failed if it is nothing like it."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1][0].lower() not in _FLAGS:
        raise _malformed()
    options = {}
    at = 2
    while tokens[at] != (";", True):
        if at + 3 >= len(tokens) or tokens[at + 1] != ("=", True) or tokens[at + 2][1]:
            raise _malformed()
        options[tokens[at][0]] = tokens[at + 2][0]
        at += 3
    return options


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Words, and signs with True."""
    found = []
    at = _skipped(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _malformed()
        quoted = match["double"] if match["single"] is None else match["single"]
        if quoted is not None:
            found.append((_ESCAPED.sub(_unescaped, quoted), False))
        else:
            found.append((match["word"] or match["sign"], match["sign"] is not None))
        at = _skipped(text, match.end())
    return found


def _skipped(text: str, at: int) -> int:
    match = _SKIPPED.match(text, at)
    assert match is not None
    return match.end()


def _unescaped(escape: re.Match[str]) -> str:
    character = escape[1]
    if character in "01234567" or len(character) > 1:
        return chr(int(character, 8))
    return _ESCAPES.get(character, character)


def _malformed() -> Failed:
    """The value itself is not shown: there are passwords in it."""
    return Failed(f"{SETTING} is not of the form {EXAMPLE}")
