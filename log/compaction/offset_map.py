"""A map from keys to their last offset: a dict while there are few keys, then a compact table.

The dict is several times as fast, but needs six times the memory. The table has 24 bytes a slot, as
Apache Kafka's map: a hash of 128 bits and the offset. A collision of two keys would lose a record.
So the hash consists of two SipHashes, of the key and of the key with a prefix, with the random
secret of the process: producers can't construct collisions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

SLOT_BYTES: Final = 24
SLOTS_MIN: Final = 97

LOAD_FACTOR_MAX: Final = 0.99
"""There must be an empty slot, which ends the search for a missing key."""

NO_OFFSET: Final = -1

DICT_SHARE: Final = 4
"""The dict has at most this part of the map's bytes. Both exist while its keys are moved."""

DICT_KEY_BYTES: Final = 130
"""What a key needs in the dict, beside its own bytes: two objects and an entry."""

_WORDS: Final = 3  # of a slot: both halves of the hash, the offset
_prefixed: Final = b"\xffkavka\x00".__add__


class OffsetMap:
    """Filled once, then read. The table has open addressing with double hashing."""

    __slots__ = (
        "_dict",
        "_dict_bytes_max",
        "_longest_key",
        "_slots",
        "_table",
        "entries",
        "entries_max",
        "latest_offset",
    )

    def __init__(
        self, limit_bytes: int, load_factor: float, keys_expected: int | None = None
    ) -> None:
        """A map of at most `limit_bytes`, filled up to `load_factor`.

        It is smaller if fewer keys are expected. ValueError if not a single key fits.
        """
        if load_factor <= 0:
            raise ValueError(f"a map with the load factor {load_factor} has no room for keys")
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
        """Up to this offset all keys are in the map."""
        self._dict: dict[bytes, int] = {}
        self._dict_bytes_max = limit_bytes // DICT_SHARE
        self._longest_key = 0
        self._table: array[int] | None = None
        """None while the keys are in the dict."""

    @property
    def utilization(self) -> float:
        """The used fraction of the map, from 0 to 1."""
        return self.entries / self._slots

    @property
    def room(self) -> int:
        """How many more keys may be added."""
        return self.entries_max - self.entries

    def put(self, keys: Iterable[bytes], deltas: Iterable[int], base_offset: int) -> None:
        """Set the offset of each key to `base_offset` plus its delta; a later one replaces it.

        There must be `room` for all keys.
        """
        keys = list(keys)
        offsets = [base_offset + delta for delta in deltas]
        if self._table is not None:
            self._add_to(self._table, keys, offsets)
            return
        self._dict.update(zip(keys, offsets, strict=True))
        self.entries = len(self._dict)
        self._longest_key = max(self._longest_key, max(map(len, keys), default=0))
        if self.entries * (DICT_KEY_BYTES + self._longest_key) > self._dict_bytes_max:
            self._make_table()

    def _make_table(self) -> None:
        found, self._dict = self._dict, {}
        self.entries = 0
        self._table = array("q", (0,)) * (self._slots * _WORDS)
        self._add_to(self._table, list(found), found.values())

    def _add_to(self, table: array[int], keys: Sequence[bytes], offsets: Iterable[int]) -> None:
        slots, entries = self._slots, self.entries
        for first_hash, second_hash, offset in zip(
            map(hash, keys), map(hash, map(_prefixed, keys)), offsets, strict=True
        ):
            first_hash = first_hash or 1  # 0 marks an empty slot
            slot = first_hash % slots * _WORDS
            while found := table[slot]:
                if found == first_hash and table[slot + 1] == second_hash:
                    break
                slot = (slot // _WORDS + 1 + second_hash % (slots - 1)) % slots * _WORDS
            else:
                table[slot] = first_hash
                table[slot + 1] = second_hash
                entries += 1
            table[slot + 2] = offset
        self.entries = entries

    def get(self, keys: Sequence[bytes]) -> list[int]:
        """The offset of each key; NO_OFFSET if it is not in the map."""
        table, slots = self._table, self._slots
        if table is None:
            return list(map(self._dict.get, keys, repeat(NO_OFFSET)))
        offsets: list[int] = []
        note = offsets.append
        for first_hash, second_hash in zip(
            map(hash, keys), map(hash, map(_prefixed, keys)), strict=True
        ):
            first_hash = first_hash or 1
            slot = first_hash % slots * _WORDS
            while found := table[slot]:
                if found == first_hash and table[slot + 1] == second_hash:
                    note(table[slot + 2])
                    break
                slot = (slot // _WORDS + 1 + second_hash % (slots - 1)) % slots * _WORDS
            else:
                note(NO_OFFSET)
        return offsets


def _prime_upto(limit: int) -> int:
    """The greatest prime up to `limit`: with it the probing reaches all slots."""
    for candidate in range(limit, 2, -1):
        if all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            return candidate
    return 2
