"""Walking a segment file from batch to batch by their headers, in bounded memory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.log.errors import CorruptLogError, StorageError
from kavka.log.fs import File
from kavka.wire.crc import crc32c
from kavka.wire.records import (
    CRC_START,
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

SCAN_BYTES: Final = 1 << 20
"""Read at a time when whole batches are checked."""

_MAGIC_AT: Final = 16
_OLD_MESSAGE_BYTES_MIN: Final = 26

_EXTENT: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_unpack_extent = _EXTENT.unpack_from


class Extent(NamedTuple):
    """Where a batch lies. Bytes in the file; offsets of its first and last record."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def extent_at(file: File, path: str, position: int, end: int) -> Extent:
    """The batch that begins at `position`; CorruptLogError when none does."""
    if position < 0 or end - position < HEADER_BYTES:
        raise CorruptLogError(path, position, "the file ends before")
    base, length, magic, delta = _unpack_extent(file.pread(HEADER_BYTES, position))
    size = length + LENGTH_PREFIX_BYTES
    why = implausible(size, magic, delta, end - position)
    if why:
        raise CorruptLogError(path, position, why)
    return Extent(position, size, base, base + delta)


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
        """Write what lies between two positions once more, the same.

        After an fsync that failed Linux takes pages for written that are not: the next fsync
        says nothing of them, and they are gone with the power. Written again they are brought to
        the disk.
        """
        while start < end:
            size = file.read_into(self._buffer[: min(len(self._buffer), end - start)], start)
            file.pwrite(self._buffer[:size], start)
            start += size

    def batches(
        self, file: File, path: str, end: int, start: int = 0
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of the whole batches between two positions.

        Stops at the first that is not whole: wrong magic, size or CRC. StorageError for a good
        message of the formats before 2, which may not be taken for damage.
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
                if implausible(size, header.magic, header.last_offset_delta, left):
                    _refuse_old_format(buffer[at:filled], path, position)
                    return
                if at + size <= filled:
                    crc = crc32c(buffer[at + CRC_START : at + size])
                elif at:
                    break  # it is read again from its beginning
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
        """The CRC of a batch that is larger than the buffer, which holds its beginning."""
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
