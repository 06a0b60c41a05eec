"""Message sets (magic 0 and 1) opened, so that only what clients see of them is compared.

Not compared is what a compressed wrapper's bytes are, which depend on the library that compresses
(its records are), and a message that is cut off at the end of the set: Apache Kafka fills an answer
up to the size that it has promised before it knew what the conversion makes of it (KIP-283).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

from kafka import codec

from kavka.compat_tests.raw.codec.packing import unpack

MAGIC_AT: Final = 16
OVERFLOW: Final = struct.pack(">q", -1)
"""The offset of what Apache Kafka fills an answer up with."""

CODEC_MASK: Final = 7
LZ4: Final = 3


class NoSet(ValueError):
    """The bytes are no sound message set."""


def is_set(records: bytes) -> bool:
    """Whether it is a message set, or the rest of one."""
    if records.startswith(OVERFLOW):
        return True
    return len(records) > MAGIC_AT and records[MAGIC_AT] in (0, 1)


def messages(records: bytes) -> list[dict[str, Any]]:
    """All whole messages; of a compressed one those that are in it. NoSet and other ValueErrors,
    struct.error and what libraries raise if the bytes are not sound."""
    found = []
    position = 0
    while len(records) - position > MAGIC_AT:
        (size,) = struct.unpack_from(">i", records, position + 8)
        whole = records[position : position + 12 + size]
        if len(whole) < 12 + size or whole.startswith(OVERFLOW):
            break
        found.append(message(whole))
        position += len(whole)
    return found


def message(whole: bytes) -> dict[str, Any]:
    """Field by field."""
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbb", whole)
    at = MAGIC_AT + 2
    timestamp = None
    if magic:
        (timestamp,) = struct.unpack_from(">q", whole, at)
        at += 8
    key, at = _nullable(whole, at)
    value, at = _nullable(whole, at)
    if at != len(whole):
        raise NoSet("bytes behind the value")
    head = {
        "offset": offset,
        "magic": magic,
        "attributes": attributes,
        "timestamp": timestamp,
        "CRC fits": crc == zlib.crc32(whole[MAGIC_AT:]),
        "key": key,
    }
    if attributes & CODEC_MASK:
        if value is None:
            raise NoSet("nothing inside")
        return {**head, "inside": messages(_inflate(attributes & CODEC_MASK, magic, value))}
    return {**head, "value": value}


def _nullable(whole: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", whole, at)
    at += 4
    return (None, at) if size < 0 else (whole[at : at + size], at + size)


def _inflate(number: int, magic: int, value: bytes) -> bytes:
    if number == LZ4 and not magic:
        return bytes(codec.lz4_decode_old_kafka(value))
    return unpack(number, value)
