"""Decompression of record batches, bounded: no more than a limit is ever inflated.

A few kilobytes may inflate to gigabytes, so each codec is told how much it may give and stops
there. The codecs are imported on first use, for the sake of a quick start.

What is read is what Apache Kafka 4.3.1's readers read: all members of a gzip stream, all frames of
a zstd stream (RFC 8878), all of snappy's framed streams, but only the first lz4 frame. What
follows is ignored where they ignore it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final, TypeAlias

from kavka.wire.errors import ApiError, ErrorCode

Bytes: TypeAlias = bytes | bytearray | memoryview

PARTS_MIN: Final = 64
BYTES_PER_PART: Final = 1024
"""A gzip stream may have so many members, and a snappy stream so many blocks, and one more for so
many bytes of the limit: each takes some microseconds, however little there is in it."""

ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
"""What level 22, the highest, asks for, and the Java library's limit."""

IN_BYTES: Final = 64 * 1024
OUT_BYTES: Final = 1024 * 1024
"""The most that gzip and lz4 are given, and give, at a time: they put together what they give
while they hold the interpreter, which for 64 MiB at once is 40 ms."""

FIRST_OUT_BYTES: Final = 64 * 1024
"""What zstd is asked for first, where a frame does not tell its size."""

_GZIP_START: Final = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER: Final = Struct("<II")  # CRC-32 and size of what was compressed
_GZIP_REST_BYTES_MAX: Final = 18  # Java does not look for another member in less than this and one
_GZIP_HEADER_CRC: Final = 0x02
_GZIP_EXTRA: Final = 0x04
_GZIP_NAME: Final = 0x08
_GZIP_COMMENT: Final = 0x10
_GZIP_FIRST_BYTES: Final = 1024
_RAW_WINDOW_BITS: Final = -15  # the largest window, and neither header nor trailer
_SHORT_BYTES: Final = 2
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16  # magic, version, oldest compatible version
_XERIAL_VERSION_MIN: Final = 1
_LENGTH_BYTES: Final = 4
_ZSTD_END: Final = b"\xa5" * 64
_ZSTD_END_FRAME: Final = (
    b"\x28\xb5\x2f\xfd\x24\x40"  # magic; a checksum; the size, 64 bytes
    b"\x03\x02\x00\xa5" + bytes.fromhex("4c6c23d7")  # the last block: one byte, repeated
)
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
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")
    return inflate(data, limit_bytes)


def _corrupt(codec: Codec, why: object) -> ApiError:
    message = f"{codec.name.lower()} records cannot be decompressed: {why}"
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def _too_big(codec: Codec, limit_bytes: int) -> ApiError:
    return _corrupt(codec, f"they decompress to more than {limit_bytes} bytes")


class _Parts:
    """What has been inflated so far, piece by piece.

    Put together once, at the end: a long `join` of `bytes` lets others have the interpreter, as
    the growing of a long `bytearray`, which may move it, does not (10 to 40 ms for 27 MB).
    """

    __slots__ = ("_codec", "_left", "_limit_bytes", "_parts", "_size")

    def __init__(self, codec: Codec, limit_bytes: int) -> None:
        self._codec = codec
        self._limit_bytes = limit_bytes
        self._left = PARTS_MIN + limit_bytes // BYTES_PER_PART
        self._parts: list[bytes] = []
        self._size = 0

    def count(self) -> None:
        """Another member or block begins. ApiError if that is too many."""
        if not self._left:
            raise _corrupt(self._codec, f"too many parts for a limit of {self._limit_bytes} bytes")
        self._left -= 1

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
    start = _after_gzip_header(view)
    if start is None:
        raise _corrupt(Codec.GZIP, "no gzip header")
    while True:
        start = _gzip_member(view, start, out)
        if len(view) - start <= _GZIP_REST_BYTES_MAX:
            return out.whole()
        header_bytes = _after_gzip_header(view[start:])
        if header_bytes is None:
            return out.whole()
        start += header_bytes
        out.count()


def _after_gzip_header(view: memoryview) -> int | None:
    """The bytes of a member's header; None where there is none. Java reads flags that zlib
    refuses, and takes what has no header for the end."""
    if len(view) < _GZIP_HEADER_BYTES or bytes(view[: len(_GZIP_START)]) != _GZIP_START:
        return None
    flags, end = view[len(_GZIP_START)], _GZIP_HEADER_BYTES
    if flags & _GZIP_EXTRA:
        end += _SHORT_BYTES + int.from_bytes(view[end : end + _SHORT_BYTES], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            end = _after_zero(view, end)
    if flags & _GZIP_HEADER_CRC:
        crc = zlib.crc32(view[:end]) & 0xFFFF
        if crc.to_bytes(_SHORT_BYTES, "little") != bytes(view[end : end + _SHORT_BYTES]):
            return None
        end += _SHORT_BYTES
    return end if end <= len(view) else None


def _after_zero(view: memoryview, start: int) -> int:
    """Where a text that ends with a zero byte ends; beyond `view` if it does not."""
    for part in range(start, len(view), IN_BYTES):
        found = bytes(view[part : part + IN_BYTES]).find(0)
        if found >= 0:
            return part + found + 1
    return len(view) + 1


def _gzip_member(view: memoryview, start: int, out: _Parts) -> int:
    """Inflate what begins at `start`, behind a header, and check the trailer; where that ends.

    It is given little at first, as what is too much for it is copied each time.
    """
    member: Any = zlib.decompressobj(_RAW_WINDOW_BITS)
    crc, size, given = 0, 0, _GZIP_FIRST_BYTES
    while not member.eof:
        tail: Bytes = view[start : start + given]
        if not tail:
            raise _corrupt(Codec.GZIP, "cut short")
        start += len(tail)
        given = min(2 * given, IN_BYTES)
        more = True
        while more:
            wanted = out.next_bytes
            try:
                made = member.decompress(tail, wanted)
            except zlib.error as error:
                raise _corrupt(Codec.GZIP, error) from None
            out.add(made)
            crc = zlib.crc32(made, crc)
            size += len(made)
            tail = member.unconsumed_tail
            more = not member.eof and (bool(tail) or len(made) == wanted)
    start -= len(member.unused_data)
    trailer = bytes(view[start : start + _GZIP_TRAILER.size])
    if trailer != _GZIP_TRAILER.pack(crc, size & 0xFFFFFFFF):
        raise _corrupt(Codec.GZIP, "cut short, or its checksum or size is wrong")
    return start + len(trailer)


def _snappy(data: Bytes, limit_bytes: int) -> Bytes:
    import cramjam

    view = memoryview(data)
    try:
        if len(view) >= _XERIAL_HEADER_BYTES and bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
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
    """The framing of the Java library (xerial): blocks with their lengths behind a header, which
    may come again between them: streams one behind the other. Java's reader passes over less than
    a length at the end."""
    from cramjam import snappy

    out = _Parts(Codec.SNAPPY, limit_bytes)
    start, end = _XERIAL_HEADER_BYTES, len(view)
    while end - start >= _LENGTH_BYTES:
        if bytes(view[start : start + _LENGTH_BYTES]) == _XERIAL_MAGIC[:_LENGTH_BYTES]:
            _check_next_xerial(view[start : start + _XERIAL_HEADER_BYTES])
            start += _XERIAL_HEADER_BYTES
        else:
            (size,) = _unpack_length(view, start)
            start += _LENGTH_BYTES
            if not 0 < size <= end - start:
                raise _corrupt(Codec.SNAPPY, f"a block of {size} bytes, {end - start} are left")
            block = view[start : start + size]
            out.check(snappy.decompress_raw_len(block))
            out.add(bytes(snappy.decompress_raw(block)))
            start += size
        out.count()
    return out.whole()


def _check_next_xerial(header: memoryview) -> None:
    """ApiError unless it is the header of another stream; unlike the first one it has to be of a
    version that there is."""
    if len(header) < _XERIAL_HEADER_BYTES:
        raise _corrupt(Codec.SNAPPY, "cut short")
    (version,) = _unpack_length(header, len(_XERIAL_MAGIC))
    if bytes(header[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC or version < _XERIAL_VERSION_MIN:
        raise _corrupt(Codec.SNAPPY, "a header that makes no sense")


def _lz4(data: Bytes, limit_bytes: int) -> Bytes:
    import lz4.frame

    from kavka.wire.lz4_frames import simple_header

    view, out = memoryview(data), _Parts(Codec.LZ4, limit_bytes)
    try:
        header = simple_header(view)
        frame = lz4.frame.LZ4FrameDecompressor()
        frame.decompress(header.simple)
        for start in range(header.size, len(view), IN_BYTES):
            tail: Bytes = view[start : start + IN_BYTES]
            end = start + len(tail)
            more = True
            while more:
                wanted = out.next_bytes
                made = frame.decompress(tail, max_length=wanted)
                out.add(made)
                if frame.eof:
                    left = len(view) - end + len(frame.unused_data or b"")
                    if left < header.trailer_bytes:
                        raise _corrupt(Codec.LZ4, "cut short")
                    return out.whole()  # Apache Kafka reads no second frame
                tail = b""
                more = not frame.needs_input or len(made) == wanted
    except (ValueError, RuntimeError) as error:
        raise _corrupt(Codec.LZ4, error) from None
    raise _corrupt(Codec.LZ4, "cut short")


def _zstd(data: Bytes, limit_bytes: int) -> Bytes:
    import zstandard

    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    try:
        told_bytes = zstandard.frame_content_size(data)  # -1 where the frame does not tell
        if told_bytes > limit_bytes:
            raise _too_big(Codec.ZSTD, limit_bytes)
        if told_bytes > 0:
            return reader.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # more frames than one, or damaged, which is found out now
    try:
        return _zstd_frames(reader, data, limit_bytes)
    except zstandard.ZstdError as error:
        raise _corrupt(Codec.ZSTD, error) from None


def _zstd_frames(reader: Any, data: Bytes, limit_bytes: int) -> Bytes:
    """All frames. The library does not tell whether the last one is whole: if it is, one that is
    put behind it is read as a frame too."""
    out = _Parts(Codec.ZSTD, limit_bytes + len(_ZSTD_END))
    with reader.stream_reader(_Source(data, _ZSTD_END_FRAME), read_across_frames=True) as stream:
        wanted = FIRST_OUT_BYTES
        while part := stream.read(min(wanted, out.next_bytes)):
            out.add(part)
            wanted = OUT_BYTES
    whole = out.whole()
    if not whole.endswith(_ZSTD_END):
        raise _corrupt(Codec.ZSTD, "cut short")
    del whole[-len(_ZSTD_END) :]
    return whole


class _Source:
    """Bytes, and some more behind them, to be read as a file.

    These come in one piece with the last of the others: a frame that begins with a piece, the
    library may take for one even where it was in the middle of another's header.
    """

    def __init__(self, data: Bytes, behind: bytes) -> None:
        self._view = memoryview(data)
        self._behind = behind

    def read(self, size: int) -> Bytes:
        view = self._view
        if len(view) + len(self._behind) <= size:
            part: Bytes = bytes(view) + self._behind
            self._view, self._behind = view[:0], b""
            return part
        size = min(size, max(len(view) // 2, 1))
        self._view = view[size:]
        return view[:size]


_INFLATE: Final[dict[int, Callable[[Bytes, int], Bytes]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
