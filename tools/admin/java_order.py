"""The order in which Java's HashMap gives its keys: Apache Kafka's tools print in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DEFAULT_CAPACITY: Final = 16


def copied_order(keys: Iterable[str]) -> list[str]:
    """The same of a map with room for just these, copied once, and then put into another such."""
    first = list(dict.fromkeys(keys))
    copy = hash_order(hash_order(first, len(first)), int(len(first) / 0.75 + 1))
    return hash_order(copy, len(first))


def hash_order(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Keys as a map gives them that they were put into in this order. It was made with room for
    `capacity` entries (no power of two is rounded up), and has doubled when three quarters were
    full."""
    unique = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(unique) > size * 3 // 4:
        size *= 2
    return sorted(unique, key=lambda key: _spread(key) & (size - 1))


def _spread(text: str) -> int:
    """String.hashCode, with its upper half mixed into the lower one."""
    value = 0
    encoded = text.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        value = (31 * value + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFF_FFFF
    return value ^ value >> 16
