"""The header of an lz4 frame, checked as Apache Kafka's reader does, which supports a subset.

It rejects skippable frames, linked blocks, dictionaries and reserved bits. It skips the content
size and the content checksum without checking them. So the frame gets a simpler header, without
either, before the lz4 library reads it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from xxhash import xxh32_intdigest

_MAGIC: Final = b"\x04\x22\x4d\x18"
_FIRST_BYTES: Final = 6  # magic, flags and block size
_CONTENT_SIZE_BYTES: Final = 8
_CHECKSUM_BYTES: Final = 4

_VERSION_MASK: Final = 0xC0
_VERSION: Final = 0x40
_INDEPENDENT: Final = 0x20
_BLOCK_CHECKSUM: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_RESERVED: Final = 0x03  # one of them flags a dictionary
_BLOCK_RESERVED: Final = 0x8F
_BLOCK_SIZE_SHIFT: Final = 4
_BLOCK_SIZE_MIN: Final = 4


class Header(NamedTuple):
    """The parts of a frame's header that are needed."""

    size: int
    """In bytes."""

    simple: bytes
    """The header to give to the lz4 library instead."""

    trailer_bytes: int
    """Size of the content checksum after the end mark."""


def simple_header(frame: memoryview) -> Header:
    """The header at the start of `frame`. ValueError if Apache Kafka's reader rejects it."""
    if len(frame) < _FIRST_BYTES:
        raise ValueError("cut short")
    if bytes(frame[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("no lz4 frame")
    flags, block = frame[len(_MAGIC)], frame[len(_MAGIC) + 1]
    if flags & _RESERVED or flags & _VERSION_MASK != _VERSION:
        raise ValueError(f"flags {flags:#x}")
    if not flags & _INDEPENDENT:
        raise ValueError("blocks that refer to each other")
    if block & _BLOCK_RESERVED or block >> _BLOCK_SIZE_SHIFT < _BLOCK_SIZE_MIN:
        raise ValueError(f"a block size of {block:#x}")
    end = _FIRST_BYTES + (_CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE else 0)
    if len(frame) <= end:
        raise ValueError("cut short")
    if frame[end] != _checksum(bytes(frame[len(_MAGIC) : end])):
        raise ValueError("the checksum does not fit the header")
    return Header(
        end + 1,
        _simple(flags & (_VERSION_MASK | _INDEPENDENT | _BLOCK_CHECKSUM), block),
        _CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM else 0,
    )


@cache
def _simple(flags: int, block: int) -> bytes:
    described = bytes([flags, block])
    return _MAGIC + described + bytes([_checksum(described)])


def _checksum(described: bytes) -> int:
    return _of_two(described) if len(described) == 2 else _of(described)


def _of(described: bytes) -> int:
    return xxh32_intdigest(described) >> 8 & 0xFF


_of_two = cache(_of)  # few distinct values without a content size
