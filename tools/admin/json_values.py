"""JSON as Apache Kafka's tools read it."""

from __future__ import annotations

import json
from typing import Any, Final

BLANKS: Final = " \t\r\n"


def first_value(text: str) -> Any:
    """The first value of a JSON text; what follows it does not count. ValueError."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        value, _ = decoder.raw_decode(text.lstrip(BLANKS))
    except RecursionError as error:
        raise ValueError(f"too deep: {error}") from error
    return value


def is_number(value: object, bits: int) -> bool:
    """Whether a value of JSON is a whole number of so many bits."""
    limit = 1 << bits - 1
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
