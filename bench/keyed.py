"""Records with keys that come again and again, made quickly, and what is left of them when each
key has only its last: computed here, from the keys alone."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from bench.frames import varint

PER_BATCH: Final = 500
KEY_BYTES: Final = 12
VALUE_BYTES: Final = 76
"""With its headers a record has 100 bytes."""

_SEED: Final = 6


def _prefix(delta: int) -> bytes:
    """What stands before the key: lengths, attributes and deltas."""
    fields = b"\0" + varint(0) + varint(delta) + varint(KEY_BYTES)
    size = len(fields) + KEY_BYTES + len(_MIDDLE) + VALUE_BYTES + 1
    return varint(size) + fields


_MIDDLE: Final = varint(VALUE_BYTES)
_PREFIXES: Final = [_prefix(delta) for delta in range(PER_BATCH)]


class Keyed(NamedTuple):
    """`records` records with `keys` different keys, drawn by chance."""

    records: int
    keys: int

    def drawn(self) -> Iterator[list[int]]:
        """The keys' numbers, batch by batch; each time the same."""
        draw = random.Random(_SEED).choices
        numbers = range(self.keys)
        for _ in range(self.records // PER_BATCH):
            yield draw(numbers, k=PER_BATCH)

    def batches(self, now_ms: int) -> Iterator[bytes]:
        """Record batches from base offset 0; a value says at which offset it is."""
        offset = 0
        for numbers in self.drawn():
            records = b"".join(
                [
                    prefix + key_of(number) + _MIDDLE + value_of(offset + delta) + b"\0"
                    for delta, (prefix, number) in enumerate(zip(_PREFIXES, numbers, strict=True))
                ]
            )
            checked = struct.pack(
                ">hiqqqhii", 0, PER_BATCH - 1, now_ms, now_ms, -1, -1, -1, PER_BATCH
            )
            crc = crc32c(records, crc32c(checked))
            yield struct.pack(">qiibI", 0, 49 + len(records), -1, 2, crc) + checked + records
            offset += PER_BATCH

    def left(self, clean_upto: int) -> dict[int, int]:
        """Offset -> number of the key, of all that is to be left: the last record of each key of
        those below `clean_upto`, and every record from there on."""
        last = array("q", [-1]) * self.keys
        after = {}
        offset = 0
        for numbers in self.drawn():
            for number in numbers:
                if offset < clean_upto:
                    last[number] = offset
                else:
                    after[offset] = number
                offset += 1
        return {offset: number for number, offset in enumerate(last) if offset >= 0} | after


def key_of(number: int) -> bytes:
    """A record's key."""
    return b"%012d" % number


def value_of(offset: int) -> bytes:
    """The value of the record at `offset`."""
    return b"%076d" % offset
