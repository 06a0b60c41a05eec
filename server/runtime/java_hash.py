"""Java's String.hashCode, which maps group and transactional ids to partitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final

HASHES_CACHED_MAX: Final = 10_000
"""Names whose hash is cached."""

HASHED_CHARACTERS_MAX: Final = 255
"""Longer names are not cached, as a full cache would take hundreds of megabytes."""


def java_hash(text: str) -> int:
    """The absolute value of Java's `String.hashCode`, as used to choose a partition; 0 for the
    smallest integer, which has no absolute value. It takes up to 0.1 us a character."""
    return _cached_hash(text) if len(text) <= HASHED_CHARACTERS_MAX else _hash(text)


def hash_set_order(texts: Iterable[str]) -> list[str]:
    """Distinct strings in the iteration order of a Java `HashSet` that they were added to."""
    given = list(texts)
    size = _TABLE_MIN
    while len(given) > size * 3 // 4:
        size *= 2

    def place(text: str) -> int:
        value = _bits(text)
        return (value ^ value >> 16) & size - 1

    return sorted(given, key=place)


def _hash(text: str) -> int:
    value = _bits(text)
    return value if value < 2**31 else -value % 2**31


def _bits(text: str) -> int:
    """The hash as an unsigned 32-bit integer."""
    data = text.encode("utf-16-be", "surrogatepass")
    units = unpack(f">{len(data) // 2}H", data)
    value = 0
    for begin in range(0, len(units), _BLOCK):
        block = units[begin : begin + _BLOCK]
        before, *weights = _POWERS[_BLOCK - len(block) :]
        value = (value * before + sum(map(mul, block, weights))) % 2**32
    return value


_TABLE_MIN: Final = 16
_BLOCK: Final = 256
_POWERS: Final = [pow(31, exponent, 2**32) for exponent in range(_BLOCK, -1, -1)]
_cached_hash: Final = lru_cache(maxsize=HASHES_CACHED_MAX)(_hash)
