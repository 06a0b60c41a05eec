"""Decompression of record batches, bounded: no more than a limit is ever inflated.

A few kilobytes may inflate to gigabytes, so each codec is told how much it may give and stops
there. The codecs are imported on first use, for the sake of a quick start. What follows the
compressed data is ignored where Apache Kafka's readers ignore it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final, TypeAlias

from kavka.wire.errors import ApiError, ErrorCode

Bytes: TypeAlias = bytes | bytearray | memoryview

GZIP_MEMBERS_MAX: Final = 16
"""A gzip stream may be several after each other; stock clients write one."""

ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
"""What level 22, the highest, asks for, and the Java library's limit."""

IN_BYTES: Final = 64 * 1024
OUT_BYTES: Final = 1024 * 1024
"""The most that gzip and lz4 are given, and give, at a time: they put together what they give
while they hold the interpreter, which for 64 MiB at once is 40 ms."""

_GZIP_WINDOW_BITS: Final = 31  # the largest window, and gzip's header and trailer
_GZIP_MAGIC: Final = b"\x1f\x8b"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16  # magic, version, oldest compatible version
_LENGTH_BYTES: Final = 4
_unpack_length: Final = Struct(">i").unpack_from


class Codec(IntEnum):
    """The codec number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(codec: int, data: Bytes, limit_bytes: int) -> Bytes:
    """`data` inflated, at most `limit_bytes` of it; codec 0 gives back `data` itself.

    ApiError CORRUPT_MESSAGE when it is damaged, cut short or inflates to more than the limit,
    UNSUPPORTED_COMPRESSION_TYPE when there is no such codec.
    """
    if codec == Codec.NONE:
        return data
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression codec {codec}")
    return inflate(data, limit_bytes)


def _corrupt(codec: Codec, why: object) -> ApiError:
    message = f"{codec.name.lower()} records cannot be decompressed: {why}"
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def _too_big(codec: Codec, limit_bytes: int) -> ApiError:
    return _corrupt(codec, f"they inflate to more than {limit_bytes} bytes")


class _Parts:
    """What has been inflated so far, piece by piece.

    Put together once, at the end: a long `join` of `bytes` lets others have the interpreter, as
    the growing of a long `bytearray`, which may move it, does not (10 to 40 ms for 27 MB).
    """

    __slots__ = ("_codec", "_limit_bytes", "_parts", "_size")

    def __init__(self, codec: Codec, limit_bytes: int) -> None:
        self._codec = codec
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def next_bytes(self) -> int:
        """The most that the next piece should have: no more than shows that it is too much."""
        return min(OUT_BYTES, self._limit_bytes + 1 - self._size)

    def check(self, more_bytes: int) -> None:
        """ApiError if so much more is too much."""
        if self._size + more_bytes > self._limit_bytes:
            raise _too_big(self._codec, self._limit_bytes)

    def add(self, part: bytes) -> None:
        """Another piece. ApiError if that is too much."""
        self.check(len(part))
        self._parts.append(part)
        self._size += len(part)

    def whole(self) -> bytearray:
        """All of it."""
        return bytearray().join(self._parts)


def _gzip(data: Bytes, limit_bytes: int) -> Bytes:
    view, out = memoryview(data), _Parts(Codec.GZIP, limit_bytes)
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            view = view[_gzip_member(member, view, out) :]
        except zlib.error as error:
            raise _corrupt(Codec.GZIP, error) from None
        if not member.eof:
            raise _corrupt(Codec.GZIP, "cut short")
        if bytes(view[: len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
            return out.whole()
    raise _corrupt(Codec.GZIP, f"more than {GZIP_MEMBERS_MAX} gzip members")


def _gzip_member(member: Any, view: memoryview, out: _Parts) -> int:
    """Inflate up to the member's end; the bytes it took."""
    for start in range(0, len(view), IN_BYTES):
        tail: Bytes = view[start : start + IN_BYTES]
        end = start + len(tail)
        more = True
        while more:
            wanted = out.next_bytes
            made = member.decompress(tail, wanted)
            out.add(made)
            if member.eof:
                return end - len(member.unused_data)
            tail = member.unconsumed_tail
            more = bool(tail) or len(made) == wanted
    return len(view)


def _snappy(data: Bytes, limit_bytes: int) -> Bytes:
    import cramjam

    view = memoryview(data)
    try:
        if bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            return _snappy_blocks(view, limit_bytes)
        size = cramjam.snappy.decompress_raw_len(view)
        if size > limit_bytes:
            raise _too_big(Codec.SNAPPY, limit_bytes)
        out = bytearray(size)
        cramjam.snappy.decompress_raw_into(view, out)
        return out
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, error) from None


def _snappy_blocks(view: memoryview, limit_bytes: int) -> Bytes:
    """The framing of the Java library (xerial): a header, then blocks with their lengths."""
    from cramjam import snappy

    out = _Parts(Codec.SNAPPY, limit_bytes)
    start, end = _XERIAL_HEADER_BYTES, len(view)
    if end < start:
        raise _corrupt(Codec.SNAPPY, "cut short")
    while start < end:
        if end - start < _LENGTH_BYTES:
            raise _corrupt(Codec.SNAPPY, "cut short")
        (size,) = _unpack_length(view, start)
        start += _LENGTH_BYTES
        if not 0 < size <= end - start:
            raise _corrupt(Codec.SNAPPY, f"a block of {size} bytes, {end - start} are left")
        block = view[start : start + size]
        out.check(snappy.decompress_raw_len(block))
        out.add(bytes(snappy.decompress_raw(block)))
        start += size
    return out.whole()


def _lz4(data: Bytes, limit_bytes: int) -> Bytes:
    import lz4.frame

    view, out = memoryview(data), _Parts(Codec.LZ4, limit_bytes)
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        for start in range(0, len(view), IN_BYTES):
            tail: Bytes = view[start : start + IN_BYTES]
            more = True
            while more:
                wanted = out.next_bytes
                made = frame.decompress(tail, max_length=wanted)
                out.add(made)
                if frame.eof:
                    return out.whole()
                tail = b""
                more = not frame.needs_input or len(made) == wanted
    except RuntimeError as error:
        raise _corrupt(Codec.LZ4, error) from None
    raise _corrupt(Codec.LZ4, "cut short")


def _zstd(data: Bytes, limit_bytes: int) -> Bytes:
    import zstandard

    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    try:
        told_bytes = zstandard.frame_content_size(data)  # -1 where the frame does not tell
        if told_bytes > limit_bytes:
            raise _too_big(Codec.ZSTD, limit_bytes)
        return reader.decompress(data, max_output_size=limit_bytes)
    except zstandard.ZstdError as error:
        # The library does not tell a frame that is cut short from one that reached the limit.
        raise _corrupt(Codec.ZSTD, f"{error} (the limit is {limit_bytes} bytes)") from None


_INFLATE: Final[dict[int, Callable[[Bytes, int], Bytes]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
