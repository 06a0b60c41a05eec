"""Record batches for the fuzz: whole ones, ways to damage them, and decompression bombs."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from functools import cache
from random import Random

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

from kavka.compat_tests.raw.codec import batches, message_sets
from kavka.compat_tests.raw.codec.batches import CODECS, CRC_START, FIELDS, HEADER_BYTES, Written

_FEW = [Written(b"key", b"value" * 4, [("h", b"x"), ("n", None)]), Written(), Written(None, None)]

BATCHES: tuple[bytes, ...] = (
    *(bytes(batches.build(_FEW, codec=codec)) for codec in CODECS),
    *(bytes(batches.build(_FEW, producer=(5000, 0, first))) for first in (0, 3)),
    bytes(batches.build(_FEW, producer=(5001, 0, 0), transactional=True)),
    bytes(batches.build([Written()])),
    *(b"".join(message_sets.several(9, magic=magic)) for magic in (0, 1)),
    *(
        message_sets.wrapped(message_sets.several(9, magic=magic), codec, magic=magic)
        for magic in (0, 1)
        for codec in ("gzip", "snappy", "lz4")
    ),
)
INTERESTING = (0, 1, -1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 2**31 - 1, -(2**31), 2**63 - 1)
_NAMES = tuple(name for name in FIELDS if name != "crc")
MAGIC_AT = FIELDS["magic"][0]
_CRC_AT = FIELDS["crc"][0]
_WIDTHS = {name: struct.calcsize(form) for name, (_, form) in FIELDS.items()}


def damaged(rnd: Random) -> bytes:
    """A batch with something wrong; more often than not with the CRC of what is wrong."""
    batch = bytearray(BATCHES[int(rnd.random() * len(BATCHES))])
    return bytes(_DAMAGES[int(rnd.random() * len(_DAMAGES))](batch, rnd))


def _right_crc(batch: bytearray) -> bytearray:
    """Of a batch, or of the first message of a set."""
    if len(batch) > CRC_START and batch[MAGIC_AT] < 2:
        (size,) = struct.unpack_from(">i", batch, 8)
        whole = batch[MAGIC_AT : max(0, size + 12)]
        struct.pack_into(">I", batch, 12, zlib.crc32(whole))
        return batch
    if len(batch) > CRC_START:
        struct.pack_into(">I", batch, _CRC_AT, crc32c(bytes(batch[CRC_START:])))
    return batch


def _field(batch: bytearray, rnd: Random) -> bytearray:
    if len(batch) < HEADER_BYTES:
        return batch
    for _ in range(1 + (rnd.random() < 0.3)):
        name = _NAMES[int(rnd.random() * len(_NAMES))]
        at, width = FIELDS[name][0], _WIDTHS[name]
        value = INTERESTING[int(rnd.random() * len(INTERESTING))]
        batch[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    return _right_crc(batch)


def _count(batch: bytearray, rnd: Random) -> bytearray:
    """As many records as offsets, but not as many as there are."""
    count = int(rnd.random() * 2**31) >> int(rnd.random() * 31)
    if len(batch) >= HEADER_BYTES:
        struct.pack_into(">i", batch, FIELDS["record_count"][0], count)
        struct.pack_into(">i", batch, FIELDS["last_offset_delta"][0], count - 1)
    return _right_crc(batch)


def _inside(batch: bytearray, rnd: Random) -> bytearray:
    """The records or the compressed data."""
    for _ in range(1 + int(rnd.random() * 3)):
        at = HEADER_BYTES + int(rnd.random() * max(1, len(batch) - HEADER_BYTES))
        if at < len(batch):
            batch[at] = int(rnd.random() * 256)
    return _right_crc(batch)


def _other_codec(batch: bytearray, rnd: Random) -> bytearray:
    batch[22] = batch[22] & 0xF8 | int(rnd.random() * 8)
    return _right_crc(batch)


def _flip(batch: bytearray, rnd: Random) -> bytearray:
    batch[int(rnd.random() * len(batch))] ^= 1 << int(rnd.random() * 8)
    return batch


def _cut(batch: bytearray, rnd: Random) -> bytearray:
    return batch[: int(rnd.random() * len(batch))]


def _shorter(batch: bytearray, rnd: Random) -> bytearray:
    """Cut short, with length and CRC of what is left."""
    batch = batch[: HEADER_BYTES + int(rnd.random() * max(1, len(batch) - HEADER_BYTES))]
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return _right_crc(batch)


def _twice(batch: bytearray, rnd: Random) -> bytearray:
    return batch + batch


_DAMAGES: tuple[Callable[[bytearray, Random], bytearray], ...] = (
    *(_field, _field, _field, _count, _inside, _inside),
    *(_other_codec, _flip, _cut, _shorter, _twice),
)

# -- bombs ----------------------------------------------------------------------------------

_MIB = 1024 * 1024
BOMB_BYTES = {
    "gzip": (16 * _MIB, 160 * _MIB),
    "snappy": (16 * _MIB,),
    "lz4": (16 * _MIB, 160 * _MIB),
    "zstd": (16 * _MIB, 64 * _MIB, 1024 * _MIB),
}
"""What a batch of at most 1 MiB says it becomes."""


def _snappy(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def _zstd(plain: bytes) -> bytes:
    """Without its size in front, so that it must be inflated to be known."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(plain)


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda plain: gzip.compress(plain, 6),
    "snappy": _snappy,
    "lz4": lz4.frame.compress,
    "zstd": _zstd,
}


@cache
def bombs() -> list[tuple[str, bytes]]:
    """(name, batch) of each: much air that is no record at all, one huge record, and a million
    records of the least size."""
    return [
        (f"{codec}-{size // _MIB}MiB-{form}", _bomb(codec, size, form))
        for codec, sizes in BOMB_BYTES.items()
        for size in sizes
        for form in ("air", "one", "many")
        if size <= 16 * _MIB or form == "air"
    ]


def _bomb(codec: str, size: int, form: str) -> bytes:
    count = 1
    if form == "air":
        plain = bytes(size)
    elif form == "one":
        value = batches.varint(size) + bytes(size)
        inside = b"\0\0\0\x01" + value + b"\0"
        plain = batches.varint(len(inside)) + inside
    else:
        count = size // 16  # each: length 6, attributes, two deltas, null, null, no headers
        plain = (b"\x0c" + b"\0\0\0\x01\x01\0") * count
    attributes = CODECS[codec]
    return bytes(batches.around(_COMPRESS[codec](plain), count=count, attributes=attributes))
