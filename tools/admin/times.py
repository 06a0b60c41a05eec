"""Times and durations as Apache Kafka's tools take them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from kavka.tools.admin.errors import Failed

_TIME: Final = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:Z|([+-])(\d\d)(?::(\d\d))?)", re.ASCII
)
"""2024-05-01T12:00:00.000, with Z or an offset such as +02:00 or +02 behind; what follows doesn't
count."""

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""P1DT2H3M4.5S; each part may be left out, but not all."""

MILLISECOND: Final = timedelta(milliseconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_ms(text: str) -> int:
    """Milliseconds since the epoch; UTC if the text doesn't say otherwise. Failed."""
    parts = text.rstrip("T").split("T")
    if len(parts) < 2:
        raise Failed(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' "
            "according to ISO8601 format"
        )
    if not any(sign in parts[1] for sign in "+-Z"):
        text += "Z"
    found = _TIME.match(text)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second, milliseconds = map(int, found.groups()[:7])
        hours, minutes = int(found[9] or 0), int(found[10] or 0)
        if milliseconds > 999 or minutes > 59:
            raise ValueError
        east = timedelta(hours=hours, minutes=minutes) * (-1 if found[8] == "-" else 1)
        when = datetime(year, month, day, hour, minute, second, tzinfo=timezone(east))
    except ValueError:
        raise Failed(f'java.text.ParseException: Unparseable date: "{text}"') from None
    return (when - EPOCH) // MILLISECOND + milliseconds


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days at most, in milliseconds. Failed."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:5]):
        raise Failed("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:5])
    microseconds = int((found[6] or "").ljust(9, "0")) // 1000
    if (found[5] or "").startswith("-"):
        microseconds = -microseconds
    try:
        whole = timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds
        )
    except OverflowError:
        raise Failed("Text cannot be parsed to a Duration: days") from None
    return (-whole if found[1] == "-" else whole) // MILLISECOND
