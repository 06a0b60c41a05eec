"""What is done to a well-formed request. Each way is a function of a source of chance, a fresh
copy of the frame and its template, and gives the bytes to send, their length in front.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from fuzz import records
from fuzz.requests import CLIENT_ID, FIXED_HEADER_BYTES, Template
from kavka.compat_tests.raw.codec.batches import uvarint

Mutate = Callable[[Random, bytearray, Template, Template], bytes]
"""(chance, frame, its template, another template) -> stream."""


class Kind(NamedTuple):
    """A way of damaging. `ends`: what follows on the connection would be taken for its rest."""

    name: str
    weight: int
    mutate: Mutate
    ends: bool = False
    needs_records: bool = False


BYTES = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
LENGTHS = (0, 1, 2, -1, -2, 0x7F, 0xFF, 0x7FFF, 0x10000, 0x7FFFFFFF, -0x80000000, 0x00FFFFFF)
EXTENSION_BYTES_MAX = 200
GARBAGE_BYTES_MAX = 300
LONG_ARRAY_BYTES_MAX = 20_000
MANY_TAGS_MAX = 300

HELLOS = (
    # the beginning of a TLS 1.2 ClientHello, and whole lines of what speaks HTTP
    bytes.fromhex("16030100c8010000c40303") + bytes(range(200)),
    b"GET / HTTP/1.1\r\nHost: localhost:9092\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
    b"POST /v1/metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\n\0\0\0\0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x05\x01\x00",
)

_pack_size = struct.Struct(">i").pack


def _framed(data: bytes | bytearray) -> bytes:
    return _pack_size(len(data)) + data


def _below(rnd: Random, count: int) -> int:
    return int(rnd.random() * count)


def _replaced(data: bytearray, at: int, size: int, new: bytes) -> bytes:
    return _framed(data[:at] + new + data[at + size :])


# -- bytes ----------------------------------------------------------------------------------


def valid(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return _framed(data)


def bit_flip(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    for _ in range(1 + _below(rnd, 3)):
        data[_below(rnd, len(data))] ^= 1 << _below(rnd, 8)
    return _framed(data)


def byte_change(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    for _ in range(1 + _below(rnd, 3)):
        data[FIXED_HEADER_BYTES + _below(rnd, len(data) - FIXED_HEADER_BYTES)] = BYTES[
            _below(rnd, len(BYTES))
        ]
    return _framed(data)


def truncate(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return _framed(data[: _below(rnd, len(data))])


def extend(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return _framed(data + rnd.randbytes(1 + _below(rnd, EXTENSION_BYTES_MAX)))


def cut(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    at = FIXED_HEADER_BYTES + _below(rnd, len(data) - FIXED_HEADER_BYTES)
    del data[at : at + 1 + _below(rnd, 8)]
    return _framed(data)


def duplicate(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    at = FIXED_HEADER_BYTES + _below(rnd, len(data) - FIXED_HEADER_BYTES)
    part = data[at : at + 1 + _below(rnd, 40)]
    return _replaced(data, at, 0, bytes(part * (1 + _below(rnd, 3))))


def garbage(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    """A body of chance behind a right header."""
    body_at = FIXED_HEADER_BYTES + len(CLIENT_ID) + this.flexible
    return _framed(data[:body_at] + rnd.randbytes(_below(rnd, GARBAGE_BYTES_MAX)))


def garbage_frame(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return _framed(rnd.randbytes(_below(rnd, GARBAGE_BYTES_MAX)))


def garbage_stream(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return rnd.randbytes(1 + _below(rnd, GARBAGE_BYTES_MAX))


# -- fields ---------------------------------------------------------------------------------


def number(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    if not this.integers:
        return bit_flip(rnd, data, this, other)
    mark = this.integers[_below(rnd, len(this.integers))]
    value = records.INTERESTING[_below(rnd, len(records.INTERESTING))]
    data[mark.at : mark.at + mark.size] = (value & ((1 << 8 * mark.size) - 1)).to_bytes(
        mark.size, "big"
    )
    return _framed(data)


def _length_bytes(this: Template, size: int, value: int) -> bytes:
    if this.flexible:
        return uvarint((value + 1) & 0xFFFFFFFF)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")


def length(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    if not this.lengths:
        return byte_change(rnd, data, this, other)
    mark = this.lengths[_below(rnd, len(this.lengths))]
    value = LENGTHS[_below(rnd, len(LENGTHS))]
    return _replaced(data, mark.at, mark.size, _length_bytes(this, mark.size, value))


def null(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    """Null instead of a string, an array or bytes, which are taken out."""
    if not this.lengths:
        return truncate(rnd, data, this, other)
    mark = this.lengths[_below(rnd, len(this.lengths))]
    return _replaced(data, mark.at, mark.end - mark.at, _length_bytes(this, mark.size, -1))


def long_array(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    """An array of many items that are really there: its content over and over."""
    arrays = [
        array
        for array in this.lengths
        if array.kind == "array" and array.end > array.at + array.size
    ]
    if not arrays:
        return length(rnd, data, this, other)
    mark = arrays[_below(rnd, len(arrays))]
    content = data[mark.at + mark.size : mark.end]
    times = 1 + _below(rnd, max(1, LONG_ARRAY_BYTES_MAX // len(content)))
    count = times * (1 + _below(rnd, 3))
    made = _length_bytes(this, mark.size, count) + content * times
    return _replaced(data, mark.at, mark.end - mark.at, made)


def long_varint(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    marks = this.marks
    at = marks[_below(rnd, len(marks))].at if marks else FIXED_HEADER_BYTES
    return _replaced(data, at, 1, b"\xff" * (1 + _below(rnd, 20)) + b"\x0f")


def unknown_tags(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    if not this.tags:
        return extend(rnd, data, this, other)
    mark = this.tags[_below(rnd, len(this.tags))]
    count = 1 + _below(rnd, 3)
    if rnd.random() < 0.1:
        count = _below(rnd, MANY_TAGS_MAX)
    section = bytearray(uvarint(count))
    for _ in range(count):
        content = rnd.randbytes(_below(rnd, 6))
        section += uvarint(_below(rnd, 20)) + uvarint(len(content)) + content
    return _replaced(data, mark.at, 1, bytes(section))


# -- header and frame -----------------------------------------------------------------------


def other_api(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    key = _below(rnd, 100) if rnd.random() < 0.8 else _below(rnd, 0x10000)
    data[0:2] = key.to_bytes(2, "big")
    return _framed(data)


def other_version(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    version = _below(rnd, 20) if rnd.random() < 0.8 else _below(rnd, 0x10000)
    data[2:4] = version.to_bytes(2, "big")
    return _framed(data)


def header(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    """The client id and its length, or the tags behind it."""
    at = 8 + _below(rnd, 2 + len(CLIENT_ID) + 1)
    if at < len(data):
        data[at] = BYTES[_below(rnd, len(BYTES))]
    return _framed(data)


def splice(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return _framed(data[: _below(rnd, len(data))] + other.frame[_below(rnd, len(other.frame)) :])


def frame_length(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    claimed = (
        len(data) + 1 + _below(rnd, 50),
        max(0, len(data) - 1 - _below(rnd, 50)),
        LENGTHS[_below(rnd, len(LENGTHS))],
    )[_below(rnd, 3)]
    return _pack_size(claimed) + data


def hello(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return HELLOS[_below(rnd, len(HELLOS))]


# -- records --------------------------------------------------------------------------------


def with_records(frame: bytes | bytearray, this: Template, batch: bytes) -> bytes:
    """The request with other records in its first place for some."""
    mark = this.records[0]
    if this.flexible:
        size = uvarint(len(batch) + 1)
    else:
        size = _pack_size(len(batch))
    return _framed(frame[: mark.at] + size + batch + frame[mark.end :])


def batch_damage(rnd: Random, data: bytearray, this: Template, other: Template) -> bytes:
    return with_records(data, this, records.damaged(rnd))


KINDS: tuple[Kind, ...] = (
    Kind("valid", 30, valid),
    Kind("bit flip", 90, bit_flip),
    Kind("byte change", 60, byte_change),
    Kind("number", 170, number),
    Kind("length", 35, length),
    Kind("null", 30, null),
    Kind("long array", 25, long_array),
    Kind("long varint", 12, long_varint),
    Kind("unknown tags", 40, unknown_tags),
    Kind("truncate", 20, truncate),
    Kind("extend", 30, extend),
    Kind("cut", 20, cut),
    Kind("duplicate", 30, duplicate),
    Kind("other API", 12, other_api),
    Kind("other version", 20, other_version),
    Kind("header", 15, header),
    Kind("splice", 30, splice),
    Kind("garbage", 10, garbage),
    Kind("garbage frame", 5, garbage_frame),
    Kind("batch damage", 120, batch_damage, needs_records=True),
    Kind("frame length", 8, frame_length, ends=True),
    Kind("hello", 3, hello, ends=True),
    Kind("garbage stream", 3, garbage_stream, ends=True),
)
"""All but the bombs, which are `fuzz.frames`' own. Weights are relative."""
