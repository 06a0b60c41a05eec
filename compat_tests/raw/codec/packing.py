"""Compression as clients do it; the same data gives the same bytes, whenever it is compressed."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from typing import Final

import cramjam
import zstandard
from kafka import codec as stock

XERIAL_HEADER: Final = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
"""Of the stream of snappy blocks that Java's library writes."""
XERIAL_BLOCK: Final = 32 * 1024


def pack(name: str, data: bytes) -> bytes:
    """Compressed by one of the protocol's codecs."""
    return _PACK[name](data)


def unpack(number: int, packed: bytes) -> bytes:
    """Inflated by the codec of this number; as it is by number 0. An exception of the library's
    if it can't be."""
    return packed if number == 0 else _UNPACK[number](packed)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _snappy(data: bytes) -> bytes:
    blocks = (data[start : start + XERIAL_BLOCK] for start in range(0, len(data), XERIAL_BLOCK))
    packed = (bytes(cramjam.snappy.compress_raw(block)) for block in blocks)
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in packed)


def _unpack_snappy(packed: bytes) -> bytes:
    if not packed.startswith(XERIAL_HEADER[:8]):
        return bytes(cramjam.snappy.decompress_raw(packed))
    found, position = b"", len(XERIAL_HEADER)
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        found += bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + size]))
        position += 4 + size
    return found


_PACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": lambda data: bytes(stock.lz4_encode(data)),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
_UNPACK: Final[dict[int, Callable[[bytes], bytes]]] = {
    1: lambda packed: bytes(stock.gzip_decode(packed)),
    2: _unpack_snappy,
    3: lambda packed: bytes(stock.lz4_decode(packed)),
    4: lambda packed: bytes(stock.zstd_decode(packed)),
}
