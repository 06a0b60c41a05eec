"""Compression of records, in the formats that Apache Kafka's readers accept.

All of it releases the GIL while it works, so that `Jobs` may run it in a thread; so does the
`bytes.join` of the output. The codecs are imported on first use, to start up faster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

from kavka.wire.compression import OUT_BYTES, Bytes, Codec

GZIP_LEVEL: Final = -1
LZ4_LEVEL: Final = 9
ZSTD_LEVEL: Final = 3
"""Apache Kafka's default levels."""

_LZ4_THOROUGH_MIN: Final = 3
_LZ4_THOROUGH_MAX: Final = 12
_GZIP_WINDOW_BITS: Final = 31  # the largest window, and gzip's header and trailer
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024  # the Java library's block size
_pack_length: Final = Struct(">i").pack


def compress(codec: int, data: Bytes, level: int | None = None) -> Bytes:
    """`data` compressed; codec 0 gives back `data` itself.

    `level` is Apache Kafka's compression level (KIP-390); None is the default, and snappy has no
    levels. ValueError for an unknown codec.
    """
    if codec == Codec.NONE:
        return data
    deflate = _DEFLATE.get(codec)
    if deflate is None:
        raise ValueError(f"unknown compression codec {codec}")
    return deflate(data, level)


def _gzip(data: Bytes, level: int | None) -> Bytes:
    member = zlib.compressobj(
        GZIP_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS
    )
    view = memoryview(data)
    starts = range(0, len(view), OUT_BYTES)
    parts = [member.compress(view[start : start + OUT_BYTES]) for start in starts]
    return b"".join((*parts, member.flush()))


def _snappy(data: Bytes, level: int | None) -> Bytes:
    """The framing of the Java library (xerial): a header, then blocks with their lengths."""
    from cramjam import snappy

    view, parts = memoryview(data), [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_pack_length(len(block)), block)
    return b"".join(parts)


def _lz4(data: Bytes, level: int | None) -> Bytes:
    """Independent blocks: Apache Kafka's reader rejects linked ones."""
    import lz4.frame

    made: bytes = lz4.frame.compress(
        data,
        compression_level=_lz4_level(LZ4_LEVEL if level is None else level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        store_size=False,
    )
    return made


def _lz4_level(level: int) -> int:
    """The library's level for a Kafka level. In Apache Kafka the default level is the fast
    compressor and every other level is lz4 HC, whose levels are the library's 3 to 12."""
    if level == LZ4_LEVEL:
        return 0
    return min(max(level, _LZ4_THOROUGH_MIN), _LZ4_THOROUGH_MAX)


def _zstd(data: Bytes, level: int | None) -> Bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level).compress(data)


_DEFLATE: Final[dict[int, Callable[[Bytes, int | None], Bytes]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
