"""The batches in a segment file, one after another, as Apache Kafka's reader goes through them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log import message_sets, records
from kavka.tools.dump_log.files import InputFile
from kavka.tools.dump_log.java_values import INT_MAX, increment_sequence, wrap_int, wrap_long
from kavka.tools.dump_log.records import Record
from kavka.wire.message_set import HEADS, LOG_OVERHEAD_BYTES, MAGIC_AT, MESSAGE_BYTES_MIN
from kavka.wire.record_batches import (
    CURRENT_MAGIC,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    BatchHeader,
    crc_of,
    read_header,
)

START_BYTES: Final = MAGIC_AT + 1
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DELETE_HORIZON: Final = 0x40
_START: Final = struct.Struct(">qi4xb")


class Batch(NamedTuple):
    """One batch, or one message of an older magic."""

    file: InputFile
    position: int
    size: int
    offset: int
    magic: int

    @property
    def is_old(self) -> bool:
        """Whether it is a message of magic 0 or 1."""
        return self.magic < CURRENT_MAGIC

    def header(self) -> BatchHeader:
        """Of a batch of magic 2; of one that is too small for it, with what follows. Failed at the
        end of the file."""
        return read_header(self._read(HEADER_BYTES))

    def data(self) -> bytes:
        """All of it."""
        return self._read(self.size)

    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.offset if self.is_old else last_offset(self.header())

    def records(self) -> Iterator[Record]:
        """Failed where they are malformed."""
        if self.is_old:
            return message_sets.iter_records(self.message())
        data = self.data()
        if len(data) < HEADER_BYTES:
            raise Failed(f"the batch at position {self.position} has only {len(data)} bytes")
        return records.iter_records(read_header(data), data)

    def timestamps(self) -> Iterator[int]:
        """Of its records; that of an old message is there whatever the rest of it is. Failed."""
        if self.is_old:
            message = message_sets.read_message(self.data())
            if not message.compression:
                return iter((message.timestamp,))
        return (record.timestamp for record in self.records())

    def message(self) -> message_sets.Message:
        """A message of an older magic. Failed."""
        if self.magic < 0 or self.size < HEADS[self.magic].size - 4:
            raise Failed(f"Invalid magic {self.magic} or size at position {self.position}")
        return message_sets.read_message(self.data())

    def _read(self, size: int) -> bytes:
        data = self.file.read(self.position, size)
        if len(data) < size:
            raise Failed(f"{self.file.path} ends within the batch at position {self.position}")
        return data


def open_segment(path: str) -> InputFile:
    """A segment file, which is not longer than a number of 32 bits can tell. Failed."""
    return InputFile(path, INT_MAX)


def iter_batches(file: InputFile, start: int, end: int) -> Iterator[Batch]:
    """Those from `start` on that are whole before `end`. Failed at a size that can't be."""
    position = start
    while position < end - START_BYTES:
        begin = file.read(position, START_BYTES)
        if len(begin) < START_BYTES:
            raise Failed(f"Unexpected end of {file.path}: it has become shorter")
        offset, length, magic = _START.unpack(begin)
        if length < MESSAGE_BYTES_MIN:
            raise Failed(
                f"Found record size {length} smaller than minimum record overhead "
                f"({MESSAGE_BYTES_MIN}) in file {file.path}."
            )
        if position > end - LOG_OVERHEAD_BYTES - length:
            return
        batch = Batch(file, position, length + LOG_OVERHEAD_BYTES, offset, magic)
        yield batch
        position += batch.size


def slice_end(file: InputFile, position: int, size: int) -> int:
    """Where a part of a file ends; Failed for one that can't be."""
    if position < 0 or size < 0 or position > file.size:
        raise Failed(f"{file.path} has {file.size} bytes, not {size} from {position} on")
    end = wrap_int(position + size)
    return file.size if end < 0 or end > file.size else end


def last_offset(header: BatchHeader) -> int:
    """That of the last record."""
    return wrap_long(header.base_offset + header.last_offset_delta)


def last_sequence(header: BatchHeader) -> int:
    """That of the last record."""
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return increment_sequence(header.base_sequence, header.last_offset_delta)


def delete_horizon(header: BatchHeader) -> int | None:
    """When its markers and tombstones may go, in ms; None if that is not set."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def codec(number: int) -> str:
    """Its name. Failed for a number that is none."""
    if number >= len(CODECS):
        raise Failed(f"Unknown compression type id: {number}")
    return CODECS[number]


def timestamp_type(by_log: bool) -> str:
    """What timestamps are."""
    return "LogAppendTime" if by_log else "CreateTime"


def is_valid(header: BatchHeader, data: bytes) -> bool:
    """Whether the CRC of a batch of magic 2 fits."""
    return len(data) >= HEADER_BYTES and crc_of(data) == header.crc


def is_by_log(header: BatchHeader) -> bool:
    """Whether the broker has set the timestamps."""
    return bool(header.attributes & LOG_APPEND_TIME)
