"""Batches in every form of a codec, and batches whose records are not what a header promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    HEADER_BYTES,
    Written,
    build,
    patch,
    varint,
)
from support.codec_forms import Encode

COUNT: Final = 30
RECORDS: Final = tuple(
    Written(b"key %d" % (number % 20), b"value %d, " % number * 4, (("h", b"%d" % number),), number)
    for number in range(COUNT)
)
"""With keys, some of which come again."""


def in_form(batch: bytes | bytearray, codec: int, encode: Encode) -> bytearray:
    """An uncompressed batch with its records compressed in a form."""
    packed = encode(bytes(batch[HEADER_BYTES:]))
    length = HEADER_BYTES + len(packed) - 12
    return patch(bytearray(batch[:HEADER_BYTES]) + packed, batch_length=length, attributes=codec)


def record(
    number: int,
    *,
    offset: int | None = None,
    size: int = 0,
    key_bytes: int = 0,
    value_bytes: int = 0,
    headers: int = 1,
) -> bytes:
    """A record as it should be, unless given otherwise: how much more than is true is promised."""
    written = RECORDS[number % COUNT]
    assert written.key is not None
    assert written.value is not None
    body = b"\0" + varint(written.time_ms) + varint(number if offset is None else offset)
    body += varint(len(written.key) + key_bytes) + written.key
    body += varint(len(written.value) + value_bytes) + written.value
    body += varint(headers) + varint(1) + b"h" + varint(2) + b"%02d" % (number % 100)
    return varint(len(body) + size) + body


def _all(make: Callable[[int], bytes], count: int = COUNT) -> bytes:
    return b"".join(make(number) for number in range(count))


def _but(place: int, **wrong: int) -> bytes:
    """All records, one of which is wrong."""
    return _all(lambda number: record(number, **(wrong if number == place else {})))


LIES: Final[dict[str, bytes]] = {
    "half of the records": _all(record, COUNT // 2),
    "a record too few": _all(record, COUNT - 1),
    "a record too many": _all(record, COUNT + 1),
    "a byte behind the last record": _all(record) + b"\0",
    "the last record cut": _all(record)[:-5],
    "noise": b"\x99" * 300,
    "zeros": bytes(300),
    "nothing": b"",
    "a record that is too long": _but(10, size=3),
    "a record that is too short": _but(10, size=-3),
    "a key that is too long": _but(10, key_bytes=5),
    "a key that is longer than all": _but(10, key_bytes=100_000),
    "a value that is too long": _but(10, value_bytes=5),
    "a header too many": _but(10, headers=2),
    "a header too few": _but(10, headers=0),
    "a number of headers below 0": _but(10, headers=-1),
    "more headers than bytes": _but(10, headers=1000),
    "the last record is wrong": _but(COUNT - 1, value_bytes=3),
}
"""Records, uncompressed, of a batch that promises `COUNT` of them."""

ODD: Final[dict[str, bytes]] = {
    "all offsets 0": _all(lambda number: record(number, offset=0)),
    "offsets in steps of 100": _all(lambda number: record(number, offset=100 * number)),
    "offsets from 5 on": _all(lambda number: record(number, offset=number + 5)),
    "offsets below 0": _all(lambda number: record(number, offset=number - 7)),
}
"""The same of one that is taken, and is stored otherwise where it is recompressed."""


def promising(records: bytes, time_ms: int = 0) -> bytearray:
    """A batch that promises `COUNT` records, and has these."""
    length = HEADER_BYTES + len(records) - 12
    start = BASE_TIMESTAMP_MS + time_ms
    return patch(
        build(RECORDS)[:HEADER_BYTES] + records,
        batch_length=length,
        base_timestamp=start,
        max_timestamp=start + COUNT - 1,
    )


def at(records: Sequence[Written], time_ms: int) -> list[Written]:
    """The same records so much later."""
    return [written._replace(time_ms=written.time_ms + time_ms) for written in records]
