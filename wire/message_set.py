"""Message sets: the record format before batches, magic 0 and 1 (KIP-31, KIP-32).

A set is a sequence of messages, each with its offset, size and CRC-32. A compressed message wraps
a whole set in its value: with magic 0 the inner messages have absolute offsets, with magic 1
relative ones from 0 on, and the wrapper has the offset of the last. Kavka stores batches only;
old clients send message sets (`up_conversion`) and are sent them (`down_conversion`).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kavka.wire.compression import Bytes

LOG_OVERHEAD_BYTES: Final = 12
"""Offset and size: what a message's size does not count."""

MESSAGE_BYTES_MIN: Final = 14
"""CRC, magic, attributes and the lengths of key and value: magic 0 with neither."""

MAGIC_AT: Final = 16
CRC_START: Final = 16
"""The CRC covers everything from the magic on."""

HEAD: Final = Struct(">qiIBB")
"""Offset, size, CRC, magic, attributes."""

HEADS: Final = (Struct(">qiIBBi"), Struct(">qiIBBqi"))
"""By magic: the same, with 1 the timestamp, and the length of the key."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
NO_TIMESTAMP: Final = -1

CRC_BYTES: Final = 4
BODY_HEADS: Final = (Struct(">BBi"), Struct(">BBqi"))
"""By magic: what the CRC covers, up to the length of the key."""

unpack_length: Final = Struct(">i").unpack_from
pack_length: Final = Struct(">i").pack
pack_start: Final = Struct(">qiI").pack
"""Offset, size and CRC."""

NULL_LENGTH: Final = pack_length(-1)


def is_batch(records: Bytes) -> bool:
    """Whether a client sent a complete batch of magic 2, not a message set or nothing."""
    if len(records) <= MAGIC_AT or records[MAGIC_AT] < len(HEADS):
        return False
    (size,) = unpack_length(records, LOG_OVERHEAD_BYTES - 4)
    return bool(size + LOG_OVERHEAD_BYTES <= len(records))
