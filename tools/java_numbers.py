"""Numbers as Java reads and writes them: Apache Kafka's tools do."""

from __future__ import annotations

import math
import re
import struct
from typing import Final

_SHORTEST: Final = 9
"""Digits that tell any float from its neighbours."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_INT: Final = re.compile(r"[+-]?\d+")  # of any script
_DECIMAL: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEX: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?"
)
_OTHER: Final = re.compile(r"[+-]?(?:NaN|Infinity)")


def parse_int(text: str) -> int | None:
    """As Integer.parseInt; None where that refuses."""
    return _parse(text, INT_MAX)


def parse_long(text: str) -> int | None:
    """As Long.parseLong; None where that refuses."""
    return _parse(text, LONG_MAX)


def _parse(text: str, limit: int) -> int | None:
    number = int(text) if _INT.fullmatch(text) else None
    return number if number is not None and -limit - 1 <= number <= limit else None


def parse_double(text: str) -> float | None:
    """As Double.parseDouble; None where that refuses."""
    text = trimmed(text)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if found := _HEX.fullmatch(text):
        return _from_hex(found[1])
    return float(text) if _OTHER.fullmatch(text) else None


def trimmed(text: str) -> str:
    """As String.trim."""
    return text.strip("".join(map(chr, range(ord(" ") + 1))))


def fixed_text(number: float, digits: int) -> str:
    """As String.format of %.Nf."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return f"{number:.{digits}f}"


def quotient(dividend: int, divisor: int) -> int:
    """As Java divides longs: towards zero. `divisor` is positive."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def ratio(dividend: float, divisor: float) -> float:
    """As Java divides doubles, by zero too."""
    if divisor:
        return dividend / divisor
    return math.copysign(math.inf, dividend) if dividend else math.nan


def double_text(number: float) -> str:
    """As Double.toString, which looks for two digits at least: 4.9E-324."""
    two = f"{abs(number):.1e}"
    return _decimal(two if float(two) == abs(number) else repr(abs(number)), number)


def float_text(number: float) -> str:
    """As Float.toString, of what fits a float."""
    for digits in range(1, _SHORTEST + 1):
        text = f"{abs(number):.{digits}g}"
        if struct.unpack(">f", struct.pack(">f", float(text)))[0] == abs(number):
            return _decimal(text, number)
    return _decimal(f"{abs(number):.{_SHORTEST}g}", number)


def _decimal(text: str, number: float) -> str:
    if math.isnan(number):
        return "NaN"
    sign = "-" if str(number).startswith("-") else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    mantissa, _, exponent = text.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    leading = len(whole + part) - len(digits)
    point = len(whole) + int(exponent or 0) - leading
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= abs(number) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _from_hex(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.copysign(math.inf, -1 if text.startswith("-") else 1)
