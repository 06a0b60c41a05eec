"""Types of settings: from text to a value, and back to the text that Apache Kafka's tools show.

Accepted spellings are those of Kafka's `ConfigDef.parseType` (values are trimmed, numbers may have
a sign, booleans ignore case), except hexadecimal doubles and NaN, which no setting uses.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
"""A parsed value; None where Kafka has null."""


class Type(IntEnum):
    """Type of a setting, numbered as in a DescribeConfigs response (`config_type`)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class BadValue(ValueError):
    """A value that its setting does not allow; the message is the one Kafka's clients know."""


LONG_MAX: Final = 2**63 - 1
LARGEST: Final = {Type.SHORT: 2**15 - 1, Type.INT: 2**31 - 1, Type.LONG: LONG_MAX}
"""The largest value of each type of whole numbers."""

# Compiled lazily: it would take longer than everything else at start-up, and few settings need it.
_DECIMAL: Final = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|Infinity)"
_TRIMMED: Final = "".join(map(chr, range(0x21)))  # what Java's String.trim takes away
_SPACE: Final = " \t\n\v\f\r"  # what surrounds the commas of a list


def invalid(name: str, shown: object, reason: str) -> BadValue:
    """The error for a value of setting `name`, in the form of Kafka's ConfigException."""
    return BadValue(f"Invalid value {shown} for configuration {name}: {reason}")


def parse(name: str, type_: Type, text: str) -> Value:
    """Parse `text` as a value of setting `name`; ranges are not checked. Raises BadValue."""
    text = text.strip(_TRIMMED)
    if type_ in LARGEST:
        return _whole_number(name, type_, text)
    if type_ is Type.BOOLEAN:
        if (lower := text.lower()) not in ("true", "false"):
            raise invalid(name, text, "Expected value to be either true or false")
        return lower == "true"
    if type_ is Type.DOUBLE:
        if not re.fullmatch(_DECIMAL, text):
            raise invalid(name, text, "Not a number of type DOUBLE")
        return float(text.rstrip("fFdD"))
    if type_ is Type.LIST:
        return _items(text) if text else ()
    return text


def _items(text: str) -> tuple[str, ...]:
    items = text.split(",")
    if any(space in text for space in _SPACE):  # rare, and there may be 100,000 items
        items = [item.strip(_SPACE) for item in items]
    return tuple(items)


def _whole_number(name: str, type_: Type, text: str) -> int:
    largest = LARGEST[type_]
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not digits.isdecimal() or not -largest - 1 <= (number := int(text)) <= largest:
        raise invalid(name, text, f"Not a number of type {type_.name}")
    return number


def one_line(text: str) -> str:
    """`text` for a log line: unchanged, or quoted if it has line breaks or control characters."""
    return text if text.isprintable() else repr(text)


def to_text(value: Value) -> str | None:
    """`value` as Kafka's tools show it; None for null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _double_text(value) if isinstance(value, float) else str(value)


def _double_text(number: float) -> str:
    """As Java's `Double.toString`: 1.0E7 where Python says 10000000.0."""
    size = abs(number)
    if size == float("inf"):
        return "Infinity" if number > 0 else "-Infinity"
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(number)
    mantissa, _, exponent = repr(size).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"
