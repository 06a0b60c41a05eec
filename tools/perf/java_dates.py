"""Times by the patterns of java.text.SimpleDateFormat, in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from kavka.tools.admin.errors import Failed

_PART: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")
_HOURS: Final = 12


def java_date(pattern: str, time_ms: int) -> str:
    """The local time by a pattern. Failed if that is none."""
    time = datetime.fromtimestamp(time_ms // 1000).astimezone()
    millisecond = time_ms % 1000
    found = []
    for match in _PART.finditer(pattern):
        text = match[0]
        if text == "''" or match[1] is not None:
            found.append((match[1] or "'").replace("''", "'"))
        elif text == "'":
            raise Failed("Unterminated quote in the date format")
        elif match[2]:
            found.append(_shown(text, time, millisecond))
        else:
            found.append(text)
    return "".join(found)


def _shown(text: str, time: datetime, millisecond: int) -> str:
    letter, width = text[0], len(text)
    if letter == "S":
        return str(millisecond).zfill(width)
    if letter in _NUMBERS:
        return str(_NUMBERS[letter](time)).zfill(width)
    if letter == "y":
        return f"{time.year % 100:02d}" if width == 2 else str(time.year).zfill(width)
    if letter in "ML":
        if width < 3:
            return str(time.month).zfill(width)
        return time.strftime("%b" if width == 3 else "%B")
    if letter == "E":
        return time.strftime("%a" if width < 4 else "%A")
    if letter == "a":
        return "AM" if time.hour < _HOURS else "PM"
    if letter == "z":
        return time.tzname() or ""
    if letter in "ZX":
        return _offset(text, time)
    if letter == "G":
        return "AD"
    raise Failed(f"Illegal pattern character '{letter}' in the date format")


def _offset(text: str, time: datetime) -> str:
    plain = time.strftime("%z")
    if text[0] == "Z":
        return plain
    if plain == "+0000":
        return "Z"
    return {1: plain[:3], 2: plain}.get(len(text), f"{plain[:3]}:{plain[3:]}")


_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "d": lambda time: time.day,
    "D": lambda time: time.timetuple().tm_yday,
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % _HOURS,
    "h": lambda time: time.hour % _HOURS or _HOURS,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
    "u": lambda time: time.isoweekday(),
}
