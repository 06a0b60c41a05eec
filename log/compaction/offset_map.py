"""The last offset of each key, for more keys than a dict would have room for.

24 bytes a slot, as in Apache Kafka's map: a hash of 128 bits and the offset. Two keys with one
hash would lose a record, so the hash must be as good as none: it is SipHash twice, of the key and
of the key behind a prefix, under the secret that each process draws for itself. Whoever writes
records does not know that secret and cannot look for collisions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

SLOT_BYTES: Final = 24
SLOTS_MIN: Final = 97

LOAD_FACTOR_MAX: Final = 0.99
"""The search for a key that is not there ends at an empty slot: there has to be one."""

NO_OFFSET: Final = -1

_WORDS: Final = 3  # of a slot: both halves of the hash, the offset
_prefixed: Final = b"\xffkavka\x00".__add__


class OffsetMap:
    """Open addressing with double hashing. Filled once, then read."""

    __slots__ = ("_slots", "_table", "entries", "entries_max", "latest_offset")

    def __init__(
        self, limit_bytes: int, load_factor: float, keys_expected: int | None = None
    ) -> None:
        """A map of at most `limit_bytes`, of which the part `load_factor` is used.

        It is smaller when fewer keys are expected. ValueError: not even one key fits.
        """
        if load_factor <= 0:
            raise ValueError(f"a map of which {load_factor} is used has no room for keys")
        load_factor = min(load_factor, LOAD_FACTOR_MAX)
        limit_slots = limit_bytes // SLOT_BYTES
        if keys_expected is not None:
            limit_slots = min(limit_slots, max(SLOTS_MIN, int(keys_expected / load_factor) + 16))
        self._slots = _prime_upto(limit_slots)
        self.entries_max = int(self._slots * load_factor)
        if self.entries_max < 1:
            raise ValueError(f"{limit_bytes} bytes are too few for a map of keys")
        self.entries = 0
        self.latest_offset = -1
        """Up to here all keys are in the map."""
        self._table = array("q", (0,)) * (self._slots * _WORDS)

    @property
    def utilization(self) -> float:
        """How much of the map is used, from 0 to 1."""
        return self.entries / self._slots

    @property
    def room(self) -> int:
        """How many more keys may be put in."""
        return self.entries_max - self.entries

    def put(self, keys: Iterable[bytes], deltas: Iterable[int], base_offset: int) -> None:
        """Note the offset of each key, `base_offset` and a delta; a later one takes its place.

        There has to be `room` for all of the keys.
        """
        table, slots, entries = self._table, self._slots, self.entries
        keys = list(keys)
        for one, two, delta in zip(
            map(hash, keys), map(hash, map(_prefixed, keys)), deltas, strict=True
        ):
            one = one or 1  # 0 marks an empty slot
            slot = one % slots * _WORDS
            while found := table[slot]:
                if found == one and table[slot + 1] == two:
                    break
                slot = (slot // _WORDS + 1 + two % (slots - 1)) % slots * _WORDS
            else:
                table[slot] = one
                table[slot + 1] = two
                entries += 1
            table[slot + 2] = base_offset + delta
        self.entries = entries

    def get(self, keys: Sequence[bytes]) -> list[int]:
        """The offset noted for each key; NO_OFFSET where there is none."""
        table, slots = self._table, self._slots
        offsets: list[int] = []
        note = offsets.append
        for one, two in zip(map(hash, keys), map(hash, map(_prefixed, keys)), strict=True):
            one = one or 1
            slot = one % slots * _WORDS
            while found := table[slot]:
                if found == one and table[slot + 1] == two:
                    note(table[slot + 2])
                    break
                slot = (slot // _WORDS + 1 + two % (slots - 1)) % slots * _WORDS
            else:
                note(NO_OFFSET)
        return offsets


def _prime_upto(limit: int) -> int:
    """The greatest prime up to `limit`, so that each step of a search reaches all slots."""
    for candidate in range(limit, 2, -1):
        if all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            return candidate
    return 2
