"""The order in which Java's HashMap and Scala's Set give their keys: Apache Kafka's tools print in
it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Final, TypeVar

DEFAULT_CAPACITY: Final = 16
BUCKET_MAX: Final = 8
"""With more in one bucket a small map doubles, and a large one makes a tree of them, whose order is
not followed here."""

TREES_FROM: Final = 64
WORD: Final = 0xFFFF_FFFF
SMALL_SET_MAX: Final = 4
"""Up to so many a Scala Set keeps in the order in which they came."""

TRIE_BITS: Final = 5
HASH_BITS: Final = 32
HASH_OF_FALSE: Final = 1237
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Node = tuple[int, str, int, str | None]
"""Id, host, port and rack of a broker."""


class ComputedMap(dict[str, V]):
    """A map whose entries computeIfAbsent makes: of those in a bucket the newest is first, and it
    is by the first call after it has become three quarters full that the map doubles."""

    def __init__(self, make: Callable[[], V]) -> None:
        super().__init__()
        self._make = make
        self._size = DEFAULT_CAPACITY

    def computed(self, key: str) -> V:
        """The value of a key, which is made if there is none."""
        if len(self) > self._size * 3 // 4:
            self._size *= 2
        return self.setdefault(key, self._make())

    def in_order(self) -> list[str]:
        """The keys as Java gives them."""
        return sorted(reversed(self), key=lambda key: _spread(_hash(key)) & (self._size - 1))


def copied_order(keys: Iterable[str]) -> list[str]:
    """The same of a map with room for just these, copied once, and then put into another such."""
    first = list(dict.fromkeys(keys))
    copy = hash_order(hash_order(first, len(first)), int(len(first) / 0.75 + 1))
    return hash_order(copy, len(first))


def hash_order(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Keys as a map gives them that they were put into in this order. It was made with room for
    `capacity` entries (or the next power of two), and doubles when three quarters are full."""
    return _order(keys, _hash, capacity)


def partition_order(partitions: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same of keys that are topic and partition."""
    return _order(partitions, _partition_hash, DEFAULT_CAPACITY)


def number_order(keys: Iterable[int]) -> list[int]:
    """The same of keys that are numbers."""
    return _order(keys, lambda key: key & WORD, DEFAULT_CAPACITY)


def long_order(keys: Iterable[int]) -> list[int]:
    """The same of keys that are longs, none of them negative."""
    return _order(keys, lambda key: (key ^ key >> 32) & WORD, DEFAULT_CAPACITY)


def entity_order(
    entities: Sequence[tuple[tuple[str, str | None], ...]],
) -> list[tuple[tuple[str, str | None], ...]]:
    """The same of keys that are entities of client quotas, each of pairs of type and name, in a
    map with room for just these."""
    return _order(entities, _entity_hash, len(entities))


def principal_order(principals: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same of keys that are principals, each of type and name."""
    return _order(principals, _principal_hash, DEFAULT_CAPACITY)


def set_order(keys: Iterable[str]) -> list[str]:
    """Keys as an immutable Set of Scala gives them that they were put into in this order."""
    unique = list(dict.fromkeys(keys))
    return unique if len(unique) <= SMALL_SET_MAX else _trie_order(unique, 0)


def _trie_order(keys: list[str], shift: int) -> list[str]:
    """The keys that a node of the trie has itself come before those of the nodes below it."""
    if shift >= HASH_BITS:
        return keys
    branches: defaultdict[int, list[str]] = defaultdict(list)
    for key in keys:
        branches[_improved(_hash(key)) >> shift & (1 << TRIE_BITS) - 1].append(key)
    in_order = [branches[at] for at in sorted(branches)]
    below = [_trie_order(some, shift + TRIE_BITS) for some in in_order if len(some) > 1]
    own = [some[0] for some in in_order if len(some) == 1]
    return own + [key for some in below for key in some]


def node_order(nodes: Iterable[Node]) -> list[Node]:
    """The same of keys that are brokers with their addresses."""
    return _order(nodes, _node_hash, DEFAULT_CAPACITY)


def _order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int) -> list[K]:
    hashes = {key: _spread(hash_of(key)) for key in dict.fromkeys(keys)}
    size = 1
    while size < capacity:
        size *= 2
    in_buckets: Counter[int] = Counter()
    for count, value in enumerate(hashes.values(), 1):
        before, bucket = size, value & (size - 1)
        in_buckets[bucket] += 1
        if in_buckets[bucket] > BUCKET_MAX and size < TREES_FROM:
            size *= 2
        if count > size * 3 // 4:
            size *= 2
        if size != before:
            in_buckets = Counter(
                hash_code & (size - 1) for hash_code in islice(hashes.values(), count)
            )
    return sorted(hashes, key=lambda key: hashes[key] & (size - 1))


def _spread(value: int) -> int:
    """The upper half mixed into the lower one."""
    return value ^ value >> 16


def _improved(value: int) -> int:
    """What Scala's immutable sets make of a hash."""
    value = value + (~(value << 9) & WORD) & WORD
    value ^= value >> 14
    value = value + (value << 4) & WORD
    return value ^ value >> 10


def _hash(text: str) -> int:
    """String.hashCode, without a sign."""
    value = 0
    encoded = text.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        value = 31 * value + (encoded[at] << 8 | encoded[at + 1]) & WORD
    return value & WORD


def _partition_hash(topic_partition: tuple[str, int]) -> int:
    """TopicPartition.hashCode, without a sign."""
    topic, partition = topic_partition
    return (31 * (31 + partition) + _hash(topic)) & WORD


def _principal_hash(principal: tuple[str, str]) -> int:
    """KafkaPrincipal.hashCode, without a sign."""
    kind, name = principal
    return 31 * _hash(kind) + _hash(name) & WORD


def _entity_hash(entity: tuple[tuple[str, str | None], ...]) -> int:
    """ClientQuotaEntity.hashCode, without a sign."""
    pairs = (_hash(kind) ^ (0 if name is None else _hash(name)) for kind, name in entity)
    return (31 + sum(pairs)) & WORD


def _node_hash(node: Node) -> int:
    """Node.hashCode of one that is not fenced, without a sign."""
    broker_id, host, port, rack = node
    value = 31 + _hash(host)
    for part in (broker_id, port, 0 if rack is None else _hash(rack), HASH_OF_FALSE):
        value = 31 * value + part & WORD
    return value
