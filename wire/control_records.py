"""Control batches: the end markers of transactions, from a transaction coordinator (KIP-98).

A batch with the transactional and control flags, no sequence, and one record: its key says COMMIT
or ABORT, its value has the coordinator epoch.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kavka.wire.compression import Bytes
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import (
    CONTROL,
    CRC_START,
    CURRENT_MAGIC,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    iter_records,
    payload_of,
)

ABORT: Final = 0
COMMIT: Final = 1

MARKER_BYTES_MAX: Final = 4096
"""More than any valid control batch has; a larger one is not decompressed."""

_NO_LEADER_EPOCH: Final = -1
_KEY: Final = struct.Struct(">hh")  # version, type
_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
_CRC_AT: Final = 17
_BODY: Final = b"\0\0\0" + bytes([2 * _KEY.size]) + b"%b" + bytes([2 * _VALUE.size]) + b"%b\0"
"""Attributes and two deltas, key and value with their lengths as varints, no headers."""


class Marker(NamedTuple):
    """The content of an end marker. Timestamp in ms."""

    committed: bool
    coordinator_epoch: int
    timestamp: int


def end_marker(
    producer_id: int, producer_epoch: int, marker: Marker, *, append_time: bool = False
) -> bytearray:
    """An end marker, byte for byte as Apache Kafka's. Its offset and epoch are set on append.
    `append_time`: of a topic with message.timestamp.type=LogAppendTime."""
    key = _KEY.pack(0, COMMIT if marker.committed else ABORT)
    body = _BODY % (key, _VALUE.pack(0, marker.coordinator_epoch))
    record = bytes([2 * len(body)]) + body
    batch = bytearray(HEADER_BYTES) + record
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_PREFIX_BYTES,
        _NO_LEADER_EPOCH,
        CURRENT_MAGIC,
        0,
        TRANSACTIONAL | CONTROL | (LOG_APPEND_TIME if append_time else 0),
        0,
        marker.timestamp,
        marker.timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def read_marker(header: BatchHeader, batch: Bytes) -> Marker | None:
    """The end marker in a complete control batch; None if it is none: emptied by compaction, or
    of another control type (KRaft's). ApiError INVALID_RECORD when it is malformed."""
    if not header.record_count:
        return None
    record = next(iter_records(header, payload_of(header, batch, MARKER_BYTES_MAX)), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "a control record without a type")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "a control record without a coordinator's epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    by_log = header.attributes & LOG_APPEND_TIME
    timestamp = header.max_timestamp if by_log else header.base_timestamp + record.timestamp_delta
    return Marker(kind == COMMIT, coordinator_epoch, timestamp)
