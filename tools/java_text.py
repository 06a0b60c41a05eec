"""Text as Java has it: read from UTF-8, and measured."""

from __future__ import annotations

import codecs
from typing import Final


def text(data: bytes | bytearray | memoryview) -> str:
    """UTF-8 as Java's String reads it, with one U+FFFD for what is malformed."""
    return bytes(data).decode("utf-8", REPLACED)


def length(string: str) -> int:
    """As String.length: units of UTF-16, of which a character beyond U+FFFF has two."""
    if string.isascii():
        return len(string)
    return len(string.encode("utf-16-le", "surrogatepass")) // 2


def padded(string: str, width: int) -> str:
    """With spaces behind it, as `%-15s`."""
    return string + " " * (width - length(string))


def _replace(error: UnicodeError) -> tuple[str, int]:
    """As Python does, except that an encoded surrogate is one malformed character, not three."""
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] >= b"\xa0":
        if data[start + 1] <= 0xBF:
            third = data[start + 2 : start + 3]
            return "\ufffd", start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return "\ufffd", error.end


REPLACED: Final = "kavka-java"
"""The error handler of that, by its name."""

codecs.register_error(REPLACED, _replace)
