"""The lz4 frames of magic 0, whose header carries a wrong checksum.

The first clients with lz4 included the magic bytes in the header checksum. Messages of magic 0
must still be written that way, and readers do not check it (KAFKA-3160). The lz4 library does
check it, so a frame gets the right checksum before it is read, and the wrong one after it is
written.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh32_intdigest

from kavka.wire.compression import Bytes

_MAGIC_BYTES: Final = 4
_FLAGS_AT: Final = 4
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01
_CONTENT_SIZE_BYTES: Final = 8
_DICTIONARY_BYTES: Final = 4
_DESCRIPTOR_BYTES: Final = 2  # flags and block size, at least


def with_valid_checksum(frame: Bytes) -> Bytes:
    """A copy of `frame` with the right header checksum; `frame` itself if its header is cut off."""
    end = _checksum_at(frame)
    return frame if end is None else _with_checksum(frame, end, _MAGIC_BYTES)


def old_header(frame: Bytes) -> bytearray:
    """The header of a complete `frame`, with magic 0's checksum."""
    end = _checksum_at(frame)
    assert end is not None, "the frame was made here"
    return _with_checksum(frame[: end + 1], end, 0)


def _checksum_at(frame: Bytes) -> int | None:
    if len(frame) <= _FLAGS_AT:
        return None
    flags = frame[_FLAGS_AT]
    end = _MAGIC_BYTES + _DESCRIPTOR_BYTES
    end += _CONTENT_SIZE_BYTES if flags & _HAS_CONTENT_SIZE else 0
    end += _DICTIONARY_BYTES if flags & _HAS_DICTIONARY else 0
    return end if end < len(frame) else None


def _with_checksum(frame: Bytes, end: int, start: int) -> bytearray:
    made = bytearray(frame)
    made[end] = xxh32_intdigest(made[start:end]) >> 8 & 0xFF
    return made
