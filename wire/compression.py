"""Bounded decompression of record batches: output stops at a limit.

A few kilobytes may decompress to gigabytes, so each codec is given an output limit. The codecs
are imported on first use, to start up faster.

Reads what Apache Kafka 4.3.1's readers read: all members of a gzip stream, all frames of a zstd
stream (RFC 8878), all of snappy's framed streams, but only the first lz4 frame. Trailing bytes
are ignored where they ignore them.
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
"""Limit of members in a gzip stream, and of blocks in a snappy stream: PARTS_MIN, plus one per
BYTES_PER_PART of the output limit. Each costs some microseconds, even an empty one."""

ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
"""The window of level 22, the highest, and the Java library's limit."""

IN_BYTES: Final = 64 * 1024
OUT_BYTES: Final = 1024 * 1024
"""Input and output limits of one call to gzip or lz4: they assemble their output while they hold
the GIL, which for 64 MiB at once takes 40 ms."""

FIRST_OUT_BYTES: Final = 64 * 1024
"""Output size of the first zstd read, where the frame has no content size."""

_GZIP_START: Final = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER: Final = Struct("<II")  # CRC-32 and size of what was compressed
_GZIP_REST_BYTES_MAX: Final = 18  # Java looks for another member only in more bytes than this
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
    """`data` decompressed, at most to `limit_bytes`; codec 0 gives back `data` itself.

    ApiError CORRUPT_MESSAGE when it is corrupt, truncated or decompresses to more than the limit,
    UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.
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
    """The decompressed output so far, in pieces.

    Joined once, at the end: a long `bytes.join` releases the GIL; growing a long `bytearray`,
    which may move it, does not (10 to 40 ms for 27 MB).
    """

    __slots__ = ("_codec", "_left", "_limit_bytes", "_parts", "_size")

    def __init__(self, codec: Codec, limit_bytes: int) -> None:
        self._codec = codec
        self._limit_bytes = limit_bytes
        self._left = PARTS_MIN + limit_bytes // BYTES_PER_PART
        self._parts: list[bytes] = []
        self._size = 0

    def count(self) -> None:
        """Count another member or block. ApiError if there are too many."""
        if not self._left:
            raise _corrupt(self._codec, f"too many parts for a limit of {self._limit_bytes} bytes")
        self._left -= 1

    @property
    def next_bytes(self) -> int:
        """Size limit of the next piece: at most one byte more than is left of the limit."""
        return min(OUT_BYTES, self._limit_bytes + 1 - self._size)

    def check(self, more_bytes: int) -> None:
        """ApiError if `more_bytes` more exceed the limit."""
        if self._size + more_bytes > self._limit_bytes:
            raise _too_big(self._codec, self._limit_bytes)

    def add(self, part: bytes) -> None:
        """Append a piece. ApiError if that exceeds the limit."""
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
    """Size of a member's header; None if there is none, which Java treats as the end of the
    stream. Java accepts flags that zlib rejects."""
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
    """The position after a zero-terminated string; beyond `view` if it is not terminated."""
    for part in range(start, len(view), IN_BYTES):
        found = bytes(view[part : part + IN_BYTES]).find(0)
        if found >= 0:
            return part + found + 1
    return len(view) + 1


def _gzip_member(view: memoryview, start: int, out: _Parts) -> int:
    """Decompress the member whose data begins at `start` and check its trailer; the position
    after it. The first input is small, since zlib copies what it does not consume.
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
            bytes_max = out.next_bytes
            try:
                made = member.decompress(tail, bytes_max)
            except zlib.error as error:
                raise _corrupt(Codec.GZIP, error) from None
            out.add(made)
            crc = zlib.crc32(made, crc)
            size += len(made)
            tail = member.unconsumed_tail
            more = not member.eof and (bool(tail) or len(made) == bytes_max)
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
    """The framing of the Java library (xerial): a header, then blocks with their lengths. Several
    such streams may be concatenated. Java's reader ignores a remainder that is shorter than a
    length."""
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
    """ApiError unless it is the header of another stream. Unlike the first one it must have a
    known version."""
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
                bytes_max = out.next_bytes
                made = frame.decompress(tail, max_length=bytes_max)
                out.add(made)
                if frame.eof:
                    left = len(view) - end + len(frame.unused_data or b"")
                    if left < header.trailer_bytes:
                        raise _corrupt(Codec.LZ4, "cut short")
                    return out.whole()  # Apache Kafka reads no second frame
                tail = b""
                more = not frame.needs_input or len(made) == bytes_max
    except (ValueError, RuntimeError) as error:
        raise _corrupt(Codec.LZ4, error) from None
    raise _corrupt(Codec.LZ4, "cut short")


def _zstd(data: Bytes, limit_bytes: int) -> Bytes:
    import zstandard

    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    try:
        content_bytes = zstandard.frame_content_size(data)  # -1 if the frame has no content size
        if content_bytes > limit_bytes:
            raise _too_big(Codec.ZSTD, limit_bytes)
        if content_bytes > 0:
            return reader.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        pass  # several frames, or corrupt: the streaming reader below finds out
    try:
        return _zstd_frames(reader, data, limit_bytes)
    except zstandard.ZstdError as error:
        raise _corrupt(Codec.ZSTD, error) from None


def _zstd_frames(reader: Any, data: Bytes, limit_bytes: int) -> Bytes:
    """All frames. The library does not report a truncated last frame, so a known frame is
    appended: it is decompressed only if the one before it is complete."""
    out = _Parts(Codec.ZSTD, limit_bytes + len(_ZSTD_END))
    with reader.stream_reader(_Source(data, _ZSTD_END_FRAME), read_across_frames=True) as stream:
        bytes_max = FIRST_OUT_BYTES
        while part := stream.read(min(bytes_max, out.next_bytes)):
            out.add(part)
            bytes_max = OUT_BYTES
    whole = out.whole()
    if not whole.endswith(_ZSTD_END):
        raise _corrupt(Codec.ZSTD, "cut short")
    del whole[-len(_ZSTD_END) :]
    return whole


class _Source:
    """A file-like reader of `data` followed by `behind`.

    `behind` is returned in one piece with the end of `data`: the library may treat the start of a
    piece as the start of a frame, even in the middle of another frame's header.
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
