"""The lz4 frames of magic 0, whose header carries a wrong checksum.

The first clients with lz4 included the magic bytes in the header checksum. Messages of magic 0
must still be written that way, and readers do not check it (KAFKA-3160). The lz4 library does
check it, so a frame gets the right checksum before it is read, and the wrong one after it is
written.
"""

from __future__ import annotations

from typing import Final

from kavka.wire.compression import Bytes

_MAGIC_BYTES: Final = 4
_FLAGS_AT: Final = 4
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01
_CONTENT_SIZE_BYTES: Final = 8
_DICTIONARY_BYTES: Final = 4
_DESCRIPTOR_BYTES: Final = 2  # flags and block size, at least

_BITS: Final = 0xFFFFFFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_LANE_BYTES: Final = 4
_SHORT_BYTES: Final = 16


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
    made[end] = xxh32_short(bytes(made[start:end])) >> 8 & 0xFF
    return made


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of up to 15 bytes, or of the 18 of the longest header."""
    if len(data) < _SHORT_BYTES:
        return _finish(_PRIME_5, data, 0, len(data))
    lanes = [_PRIME_1 + _PRIME_2 & _BITS, _PRIME_2, 0, -_PRIME_1 & _BITS]
    for slot in range(4):
        word = int.from_bytes(data[slot * _LANE_BYTES :][:_LANE_BYTES], "little")
        lanes[slot] = _rotated(lanes[slot] + word * _PRIME_2, 13) * _PRIME_1 & _BITS
    mixed = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    return _finish(mixed, data, _SHORT_BYTES, len(data))


def _finish(mixed: int, data: bytes, position: int, length: int) -> int:
    mixed = mixed + length & _BITS
    while length - position >= _LANE_BYTES:
        word = int.from_bytes(data[position : position + _LANE_BYTES], "little")
        mixed = _rotated(mixed + word * _PRIME_3, 17) * _PRIME_4 & _BITS
        position += _LANE_BYTES
    for byte in data[position:]:
        mixed = _rotated(mixed + byte * _PRIME_5, 11) * _PRIME_1 & _BITS
    mixed = (mixed ^ mixed >> 15) * _PRIME_2 & _BITS
    mixed = (mixed ^ mixed >> 13) * _PRIME_3 & _BITS
    return mixed ^ mixed >> 16


def _rotated(value: int, by: int) -> int:
    value &= _BITS
    return (value << by | value >> 32 - by) & _BITS
