"""Message sets: the form of records before batches, with magic 0 and 1 (KIP-31, KIP-32).

A set is a row of messages, each with its offset, size and CRC-32. A compressed message wraps a
whole set in its value: with magic 0 the messages inside have their real offsets, with magic 1
offsets from 0 on, and the wrapper has the offset of the last one. Kavka keeps batches only;
message sets are what old clients send (`up_conversion`) and get (`down_conversion`).
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
    """Whether what a client sent is a batch, whole, and neither a message nor nothing at all."""
    if len(records) <= MAGIC_AT or records[MAGIC_AT] < len(HEADS):
        return False
    (size,) = unpack_length(records, LOG_OVERHEAD_BYTES - 4)
    return bool(size + LOG_OVERHEAD_BYTES <= len(records))
