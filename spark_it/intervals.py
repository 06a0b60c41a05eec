"""Lengths of time as Spark's windows take them: "10 minutes", "1 hour 30 minutes"."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from kavka.spark_it.errors import SparkError

UNITS_MS: Final = MappingProxyType(
    {
        "millisecond": 1,
        "second": 1000,
        "minute": 60_000,
        "hour": 3_600_000,
        "day": 86_400_000,
        "week": 604_800_000,
    }
)
"""Months and years are left out: they have no fixed length, and Spark's windows need one."""

PART: Final = re.compile(rf"\s*(\d+)\s*({'|'.join(UNITS_MS)})s?(?=\s|$)", re.IGNORECASE)


def interval_ms(text: str, option: str) -> int:
    """Milliseconds of a length of time. SparkError names the option and the units there are."""
    total_ms, at = 0, 0
    rest = text.rstrip()
    while at < len(rest):
        part = PART.match(rest, at)
        if part is None:
            break
        total_ms += int(part[1]) * UNITS_MS[part[2].lower()]
        at = part.end()
    if not rest or at < len(rest):
        raise SparkError(
            f'{option}: {text!r} is not a length of time such as "10 minutes" or "1 hour 30 '
            f'minutes" (units: {", ".join(UNITS_MS)})'
        )
    return total_ms
