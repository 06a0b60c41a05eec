"""The records of a partition, as plain values: batches alone, or with keys and values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from kavka.tools.tap.messages import text_of
from kavka.wire import compression, record_batches
from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError
from kavka.wire.message_set import CODEC_MASK, HEADS, LOG_OVERHEAD_BYTES, MAGIC_AT

INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Records that are bigger when they are decompressed are not shown."""


def batches(records: memoryview) -> list[dict[str, Any]]:
    """What the headers of the batches say."""
    return [_described(records, start, end) for start, end in _whole_batches(records)]


def with_values(records: memoryview) -> list[dict[str, Any]]:
    """The same, each with its records."""
    found = []
    for start, end in _whole_batches(records):
        batch = _described(records, start, end)
        try:
            batch["records"] = list(_records(records[start:end]))
        except (ApiError, ValueError, IndexError, struct.error) as failure:
            batch["unreadable"] = str(failure)
        found.append(batch)
    return found


def _whole_batches(records: memoryview) -> Iterator[tuple[int, int]]:
    """Where each batch (or message of old format) begins and ends. A Fetch may cut the last one."""
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(records):
        size = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD_BYTES], "big")
        end = position + LOG_OVERHEAD_BYTES + size
        if end > len(records) or end <= position + MAGIC_AT:
            return
        yield position, end
        position = end


def _described(records: memoryview, start: int, end: int) -> dict[str, Any]:
    magic = records[start + MAGIC_AT]
    if magic != record_batches.CURRENT_MAGIC or end - start < record_batches.HEADER_BYTES:
        offset = int.from_bytes(records[start : start + 8], "big", signed=True)
        return {"base_offset": offset, "magic": magic, "bytes": end - start}
    head = record_batches.read_header(records, start)
    found: dict[str, Any] = {
        "base_offset": head.base_offset,
        "last_offset": head.last_offset,
        "count": head.record_count,
        "bytes": head.size,
        "compression": _codec_name(head.compression),
        "max_timestamp": head.max_timestamp,
    }
    if head.producer_id != record_batches.NO_PRODUCER_ID:
        found["producer_id"] = head.producer_id
        found["producer_epoch"] = head.producer_epoch
        found["base_sequence"] = head.base_sequence
    if head.is_transactional:
        found["transactional"] = True
    if head.is_control:
        found["control"] = True
    return found


def _codec_name(codec: int) -> str:
    return Codec(codec).name.lower() if codec in Codec._value2member_map_ else str(codec)


def _records(batch: memoryview) -> Iterator[dict[str, Any]]:
    if batch[MAGIC_AT] != record_batches.CURRENT_MAGIC:
        yield from _old_messages(batch)
        return
    head = record_batches.read_header(batch)
    payload = record_batches.payload_of(head, batch, INFLATED_BYTES_MAX)
    for decoded in record_batches.iter_records(head, payload):
        record: dict[str, Any] = {
            "offset": head.base_offset + decoded.offset_delta,
            "timestamp": head.base_timestamp + decoded.timestamp_delta,
            "key": _text(decoded.key),
            "value": _text(decoded.value),
        }
        if decoded.headers:
            record["headers"] = [[_text(name), _text(value)] for name, value in decoded.headers]
        yield record


def _old_messages(message: memoryview) -> Iterator[dict[str, Any]]:
    """The records of a message of magic 0 or 1; a compressed one has others in its value."""
    offset, _, _, magic, attributes, *timestamp, key_length = HEADS[message[MAGIC_AT]].unpack_from(
        message
    )
    position = HEADS[magic].size
    key, position = _field(message, position, key_length)
    (length,) = struct.unpack_from(">i", message, position)
    value, _ = _field(message, position + 4, length)
    codec = attributes & CODEC_MASK
    if codec == Codec.NONE or value is None:
        record = {"offset": offset, "key": _text(key), "value": _text(value)}
        if timestamp:
            record["timestamp"] = timestamp[0]
        yield record
        return
    inner = memoryview(compression.decompress(codec, value, INFLATED_BYTES_MAX))
    for start, end in _whole_batches(inner):
        yield from _old_messages(inner[start:end])


def _field(message: memoryview, position: int, length: int) -> tuple[memoryview | None, int]:
    if length < 0:
        return None, position
    return message[position : position + length], position + length


def _text(value: Bytes | None) -> str | None:
    return None if value is None else text_of(value)
