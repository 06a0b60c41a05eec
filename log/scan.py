"""Walking a segment file from batch to batch by their headers, in bounded memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.errors import CorruptLogError
from kavka.log.fs import File
from kavka.wire.records import (
    CURRENT_MAGIC,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    read_header,
)

SEEK_BYTES: Final = 4096
"""Read at a time when a batch is looked for: about an index interval."""

REPLAY_BYTES: Final = 65536
"""Read at a time when all headers are wanted."""

_EXTENT: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_unpack_extent = _EXTENT.unpack_from


class Extent(NamedTuple):
    """Where a batch lies. Bytes in the file; offsets of its first and last record."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def extents(file: File, path: str, start: int, end: int) -> Iterator[Extent]:
    """The batches between two positions; CorruptLogError where there is none.

    A batch that begins before `end` but does not end there is no batch either.
    """
    position = start
    while position < end:
        chunk = file.pread(min(SEEK_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            base, length, magic, delta = _unpack_extent(chunk, at)
            size = length + LENGTH_PREFIX_BYTES
            why = implausible(size, magic, delta, end - position)
            if why:
                raise CorruptLogError(path, position, why)
            yield Extent(position, size, base, base + delta)
            position += size
            at += size
        if at == 0:
            raise CorruptLogError(path, position, "the file ends within a header")


def headers(file: File, path: str, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches between two positions, as `extents` gives them."""
    position = start
    while position < end:
        chunk = file.pread(min(REPLAY_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            size = header.batch_length + LENGTH_PREFIX_BYTES
            why = implausible(size, header.magic, header.last_offset_delta, end - position)
            if why:
                raise CorruptLogError(path, position, why)
            yield position, header
            position += size
            at += size
        if at == 0:
            raise CorruptLogError(path, position, "the file ends within a header")


def implausible(size: int, magic: int, delta: int, room: int) -> str | None:
    """Why these can't be a batch's size, magic and last offset delta; None when they can."""
    if magic != CURRENT_MAGIC:
        return f"its magic would be {magic}"
    if size < HEADER_BYTES or size > room:
        return f"its size would be {size} bytes, with {room} left"
    if delta < 0:
        return f"its last offset would be {-delta} before its first"
    return None
