"""Messages of magic 0 and 1 for tests, written field by field, so that each can be wrong."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

from kafka import codec

from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, CODECS
from kavka.compat_tests.raw.codec.packing import pack

LOG_APPEND_TIME: Final = 0x08


def message(
    key: bytes | None = None,
    value: bytes | None = b"value",
    *,
    magic: int = 1,
    offset: int = 0,
    attributes: int = 0,
    time_ms: int = 0,
    timestamp: int | None = None,
    crc: int | None = None,
    size: int | None = None,
    rest: bytes = b"",
) -> bytes:
    """One message. `time_ms` is relative to BASE_TIMESTAMP_MS, `timestamp` is not; `rest` lies
    behind the value. CRC and size fit unless they are given."""
    body = struct.pack(">bB", magic, attributes)
    if magic:
        body += struct.pack(">q", BASE_TIMESTAMP_MS + time_ms if timestamp is None else timestamp)
    return framed(body + nullable(key) + nullable(value) + rest, offset=offset, crc=crc, size=size)


def framed(
    body: bytes, *, offset: int = 0, crc: int | None = None, size: int | None = None
) -> bytes:
    """What the CRC covers, with what stands before it."""
    length = len(body) + 4 if size is None else size
    return struct.pack(">qiI", offset, length, zlib.crc32(body) if crc is None else crc) + body


def nullable(data: bytes | None) -> bytes:
    """A key or a value with its length."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def several(count: int = 3, *, magic: int = 1, **more: Any) -> list[bytes]:
    """Messages with offsets from 0 on, of all shapes."""
    keys = (None, b"", b"key", b"k" * 200)
    values = (b"value", b"", None, b"v" * 300)
    return [
        message(keys[n % 4], values[n // 4 % 4], magic=magic, offset=n, time_ms=n % 7, **more)
        for n in range(count)
    ]


def deflate(name: str, data: bytes, magic: int = 1) -> bytes:
    """`data` as clients compress it."""
    if name == "lz4" and not magic:
        return bytes(codec.lz4_encode_old_kafka(data))
    return pack(name, data)


def wrapped(
    inner: Sequence[bytes],
    name: str = "gzip",
    *,
    magic: int = 1,
    offset: int | None = None,
    attributes: int = 0,
    **more: Any,
) -> bytes:
    """A message around a compressed set; its offset is that of the last one inside unless given."""
    return message(
        None,
        deflate(name, b"".join(inner), magic),
        magic=magic,
        offset=len(inner) - 1 if offset is None else offset,
        attributes=attributes | CODECS[name],
        **more,
    )
