"""Iterating over the batches of a segment file by their headers, in bounded memory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import File
from kavka.wire.crc import crc32c
from kavka.wire.record_batches import (
    CRC_START,
    CURRENT_MAGIC,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    read_header,
)

SEEK_BYTES: Final = 4096
"""Bytes read at a time when searching a batch: about an index interval."""

REPLAY_BYTES: Final = 65536
"""Bytes read at a time when reading all headers."""

SCAN_BYTES: Final = 1 << 20
"""Bytes read at a time when checking whole batches."""

_MAGIC_AT: Final = 16
_OLD_MESSAGE_BYTES_MIN: Final = 26

_EXTENT: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_unpack_extent = _EXTENT.unpack_from


class Extent(NamedTuple):
    """A batch: position and size in the file, first and last offset."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def extent_at(file: File, path: str, position: int, end: int) -> Extent:
    """The batch that begins at `position`; CorruptLogError when none does."""
    if position < 0 or end - position < HEADER_BYTES:
        raise CorruptLogError(path, position, "it is beyond the end of the file")
    base, length, magic, delta = _unpack_extent(file.pread(HEADER_BYTES, position))
    size = length + LENGTH_PREFIX_BYTES
    why = header_error(size, magic, delta, end - position)
    if why:
        raise CorruptLogError(path, position, why)
    return Extent(position, size, base, base + delta)


def extents(file: File, path: str, start: int, end: int) -> Iterator[Extent]:
    """The batches between two positions. CorruptLogError for an invalid header, or a batch that
    extends beyond `end`.
    """
    position = start
    while position < end:
        chunk = file.pread(min(SEEK_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            base, length, magic, delta = _unpack_extent(chunk, at)
            size = length + LENGTH_PREFIX_BYTES
            why = header_error(size, magic, delta, end - position)
            if why:
                raise CorruptLogError(path, position, why)
            yield Extent(position, size, base, base + delta)
            position += size
            at += size
        if at == 0:
            raise CorruptLogError(path, position, "the file ends within a header")


def headers(file: File, path: str, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches between two positions; see `extents`."""
    position = start
    while position < end:
        chunk = file.pread(min(REPLAY_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            size = header.batch_length + LENGTH_PREFIX_BYTES
            why = header_error(size, header.magic, header.last_offset_delta, end - position)
            if why:
                raise CorruptLogError(path, position, why)
            yield position, header
            position += size
            at += size
        if at == 0:
            raise CorruptLogError(path, position, "the file ends within a header")


def header_error(size: int, magic: int, delta: int, room: int) -> str | None:
    """Why size, magic or last offset delta of a batch are invalid; None if they are valid."""
    if magic != CURRENT_MAGIC:
        return f"its magic would be {magic}"
    if size < HEADER_BYTES or size > room:
        return f"its size would be {size} bytes, with {room} left"
    if delta < 0:
        return f"its last offset would be {-delta} before its first"
    return None


class BatchScanner:
    """Reads batches with their CRC; one buffer for any number of files, whatever their size."""

    def __init__(self, buffer_bytes: int = SCAN_BYTES) -> None:
        self._buffer = memoryview(bytearray(max(buffer_bytes, HEADER_BYTES)))

    def check(self, file: File, path: str, extent: Extent) -> None:
        """CorruptLogError unless the batch is as its checksum says."""
        end = extent.position + extent.size
        if next(self.batches(file, path, end, extent.position), None) is None:
            raise CorruptLogError(path, extent.position, "its checksum would be wrong")

    def rewrite(self, file: File, start: int, end: int) -> None:
        """Write the bytes between two positions again, unchanged.

        After a failed fsync Linux marks the pages clean although they were not written: the next
        fsync succeeds, and they are lost in a power failure. Writing again makes them dirty.
        """
        while start < end:
            size = file.read_into(self._buffer[: min(len(self._buffer), end - start)], start)
            file.pwrite(self._buffer[:size], start)
            start += size

    def batches(
        self, file: File, path: str, end: int, start: int = 0
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of the valid batches between two positions.

        Stops at the first invalid one: wrong magic, size or CRC. StorageError for a valid message
        of a format before 2, which must not be treated as damage.
        """
        buffer = self._buffer
        position = start
        while position < end:
            filled = file.read_into(buffer[: min(len(buffer), end - position)], position)
            at = 0
            while at + HEADER_BYTES <= filled:
                header = read_header(buffer, at)
                size = header.batch_length + LENGTH_PREFIX_BYTES
                left = end - position
                if header_error(size, header.magic, header.last_offset_delta, left):
                    _refuse_old_format(buffer[at:filled], path, position)
                    return
                if at + size <= filled:
                    crc = crc32c(buffer[at + CRC_START : at + size])
                elif at:
                    break  # read it again, from its start
                else:
                    crc = self._crc_of_large(file, position, size, filled)
                if crc != header.crc:
                    return
                yield position, header
                position += size
                at += size
            if at == 0:
                _refuse_old_format(buffer[:filled], path, position)
                return

    def _crc_of_large(self, file: File, position: int, size: int, filled: int) -> int:
        """The CRC of a batch larger than the buffer, which has its first part."""
        crc = crc32c(self._buffer[CRC_START:filled])
        done = filled
        while done < size:
            got = file.read_into(
                self._buffer[: min(len(self._buffer), size - done)], position + done
            )
            if not got:
                return -1
            crc = crc32c(self._buffer[:got], crc)
            done += got
        return crc


def _refuse_old_format(data: memoryview, path: str, position: int) -> None:
    if len(data) < _OLD_MESSAGE_BYTES_MIN:
        return
    magic = data[_MAGIC_AT]
    size = int.from_bytes(data[8:12], "big") + LENGTH_PREFIX_BYTES
    if (
        magic < CURRENT_MAGIC
        and _OLD_MESSAGE_BYTES_MIN <= size <= len(data)
        and zlib.crc32(data[_MAGIC_AT:size]) == int.from_bytes(data[12:16], "big")
    ):
        raise StorageError(
            f"{path} has a message of format {magic} at byte {position}, which is not supported: "
            "let Apache Kafka rewrite the topic first"
        )
