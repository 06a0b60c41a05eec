"""Record batches (magic 2) that are stored otherwise than they were sent: in another codec, with
the time of their append, with a header that tells the truth.

The records themselves are copied byte for byte: neither offsets nor times within a batch change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kavka.wire.compression import Bytes
from kavka.wire.crc import crc32c
from kavka.wire.records import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    BatchHeader,
    malformed,
    read_header,
    read_varint,
)

_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35
_VARLONG_BITS: Final = 64
_pack_crc: Final = struct.Struct(">I").pack_into
_pack_attributes: Final = struct.Struct(">h").pack_into
_pack_timestamp: Final = struct.Struct(">q").pack_into


def set_times(
    batch: memoryview, header: BatchHeader, max_timestamp: int, *, append_time: bool
) -> BatchHeader:
    """Write into the batch, and its CRC, whether it has the time of its append, and its newest
    timestamp in ms, which is then that of every record. The header as it is now."""
    flag = LOG_APPEND_TIME if append_time else 0
    if header.max_timestamp == max_timestamp and header.attributes & LOG_APPEND_TIME == flag:
        return header
    _pack_attributes(batch, CRC_START, _attributes(header, header.compression, flag))
    _pack_timestamp(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _pack_crc(batch, _CRC_AT, crc32c(batch[CRC_START : header.size]))
    return read_header(batch)


def rebuild(header: BatchHeader, codec: int, compressed: Bytes) -> memoryview:
    """A batch like the one of `header`, but for its records, which are in `codec` now."""
    batch = memoryview(bytearray(HEADER_BYTES + len(compressed)))
    batch[HEADER_BYTES:] = compressed
    flag = header.attributes & LOG_APPEND_TIME
    fields = header._replace(
        batch_length=len(batch) - LENGTH_PREFIX_BYTES,
        attributes=_attributes(header, codec, flag),
        crc=0,
    )
    HEADER.pack_into(batch, 0, *fields)
    _pack_crc(batch, _CRC_AT, crc32c(batch[CRC_START:]))
    return batch


def _attributes(header: BatchHeader, codec: int, time_flag: int) -> int:
    """Bits that mean nothing, or nothing yet, are dropped, as Apache Kafka drops them."""
    return header.attributes & TRANSACTIONAL | codec & COMPRESSION_MASK | time_flag


def iter_heads(header: BatchHeader, payload: Bytes) -> Iterator[tuple[int, int]]:
    """(timestamp delta in ms, bytes of the key or -1) of each record, the rest passed over.

    ApiError INVALID_RECORD once the records are malformed. `payload` is what
    `kavka.wire.records.payload_of` gives.
    """
    position, end = 0, len(payload)
    if header.record_count * RECORD_BYTES_MIN > end:
        raise malformed(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            size, position = read_varint(payload, position)
            record_end = position + size
            if size <= 0 or record_end > end:
                raise malformed(f"a record of {size} bytes, {end - position} are left")
            byte = payload[position + 1]  # behind the attributes
            position += 2
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, position = read_varint(payload, position - 1, _VARLONG_BITS)
            while payload[position] > 0x7F:  # the offset delta
                position += 1
            byte = payload[position + 1]
            position += 2
            if byte < 0x80:
                key_bytes = (byte >> 1) ^ -(byte & 1)
            else:
                key_bytes, position = read_varint(payload, position - 1)
            if position + key_bytes > record_end:
                raise malformed(f"a key of {key_bytes} bytes in a record of {size}")
            position = record_end
            yield delta, key_bytes
    except IndexError:
        raise malformed("a record goes past the end of its batch") from None
    if position != end:
        raise malformed(f"{end - position} bytes after the last record")
