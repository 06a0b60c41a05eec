"""Values as Java computes and prints them: numbers that wrap, Jackson's JSON."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kavka.tools.java_numbers import double_text

INT_MAX: Final = 2**31 - 1

_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')


def wrap_short(value: int) -> int:
    """The lower 16 bits, with their sign."""
    return (value + 2**15) % 2**16 - 2**15


def wrap_int(value: int) -> int:
    """The lower 32 bits, with their sign."""
    return (value + 2**31) % 2**32 - 2**31


def wrap_long(value: int) -> int:
    """The lower 64 bits, with their sign."""
    return (value + 2**63) % 2**64 - 2**63


def boolean(value: bool) -> str:
    """true or false."""
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    """As OptionalLong prints itself."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def increment_sequence(sequence: int, increment: int) -> int:
    """A sequence number further on; they wrap from 2**31-1 to 0."""
    if sequence > wrap_int(INT_MAX - increment):
        return wrap_int(increment - (INT_MAX - sequence) - 1)
    return wrap_int(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """A sequence number further back."""
    if sequence < decrement:
        return wrap_int(INT_MAX - (decrement - sequence) + 1)
    return wrap_int(sequence - decrement)


def json_text(value: Any) -> str:
    """JSON without spaces; bytes as base64."""
    match value:
        case None:
            return "null"
        case bool():
            return boolean(value)
        case str():
            return f'"{_ESCAPED.sub(_escape, value)}"'
        case float():
            # Jackson quotes what JSON has no number for
            number = double_text(value)
            return number if math.isfinite(value) else f'"{number}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case Mapping():
            members = (f"{json_text(key)}:{json_text(field)}" for key, field in value.items())
            return "{" + ",".join(members) + "}"
        case Sequence():
            return "[" + ",".join(map(json_text, value)) + "]"
        case _:
            return str(value)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"
