"""Java's hash of a text: by it clients and brokers agree on the partition of a name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final

HASHES_KEPT_MAX: Final = 10_000
"""Names whose hash is remembered."""

HASHED_CHARACTERS_MAX: Final = 255
"""Longer names are not remembered: all of them together would take hundreds of megabytes."""


def java_hash(text: str) -> int:
    """Java's `String.hashCode` without its sign, as clients and tools count partitions with it;
    0 for the least integer, which has no counterpart. It takes up to 0.1 us a character."""
    return _kept_hash(text) if len(text) <= HASHED_CHARACTERS_MAX else _hash(text)


def hash_set_order(texts: Iterable[str]) -> list[str]:
    """Different texts in the order in which Java's `HashSet` has them, added one by one."""
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
    """The hash as 32 bits without a sign."""
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
_kept_hash: Final = lru_cache(maxsize=HASHES_KEPT_MAX)(_hash)
