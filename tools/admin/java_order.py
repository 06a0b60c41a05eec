"""The order in which Java's HashMap gives its keys: Apache Kafka's tools print in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

DEFAULT_CAPACITY: Final = 16
WORD: Final = 0xFFFF_FFFF
K = TypeVar("K", bound=Hashable)


def copied_order(keys: Iterable[str]) -> list[str]:
    """The same of a map with room for just these, copied once, and then put into another such."""
    first = list(dict.fromkeys(keys))
    copy = hash_order(hash_order(first, len(first)), int(len(first) / 0.75 + 1))
    return hash_order(copy, len(first))


def hash_order(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Keys as a map gives them that they were put into in this order. It was made with room for
    `capacity` entries (or the next power of two), and doubles when three quarters are full."""
    return _order(keys, _hash, capacity)


def partition_order(places: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same of keys that are topic and partition."""
    return _order(places, _partition_hash, DEFAULT_CAPACITY)


def _order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int) -> list[K]:
    unique = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(unique) > size * 3 // 4:
        size *= 2
    return sorted(unique, key=lambda key: _spread(hash_of(key)) & (size - 1))


def _spread(value: int) -> int:
    """The upper half mixed into the lower one."""
    return value ^ value >> 16


def _hash(text: str) -> int:
    """String.hashCode, without a sign."""
    value = 0
    encoded = text.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        value = 31 * value + (encoded[at] << 8 | encoded[at + 1]) & WORD
    return value & WORD


def _partition_hash(place: tuple[str, int]) -> int:
    """TopicPartition.hashCode, without a sign."""
    topic, partition = place
    return (31 * (31 + partition) + _hash(topic)) & WORD
