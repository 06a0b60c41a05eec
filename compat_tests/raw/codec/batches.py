"""Record batches for tests, built by kafka-python, and the same with one thing wrong."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kavka.compat_tests.raw.codec.packing import pack, unpack

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BASE_TIMESTAMP_MS = 1_700_000_000_000

# Where the fields of a batch header lie (KIP-98), and how they are packed.
FIELDS = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}
HEADER_BYTES = 61
CRC_START = 21
LOG_APPEND_TIME = 0x08
CONTROL = 0x20


class Written(NamedTuple):
    """A record as a test writes it; the time is relative to BASE_TIMESTAMP_MS."""

    key: bytes | None = None
    value: bytes | None = b"value"
    headers: Sequence[tuple[str, bytes | None]] = ()
    time_ms: int = 0


def build(
    records: Sequence[Written] = (Written(), Written(), Written()),
    *,
    codec: str = "none",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    """A whole batch. `producer` is (id, epoch, first sequence)."""
    builder = DefaultRecordBatchBuilder(2, CODECS["none"], transactional, *producer, 1 << 30)
    for offset, record in enumerate(records):
        added: Any = builder.append(
            offset,
            BASE_TIMESTAMP_MS + record.time_ms,
            record.key,
            record.value,
            list(record.headers),
        )
        assert added is not None
    return _packed(bytearray(builder.build()), codec)


def _packed(batch: bytearray, codec: str) -> bytearray:
    """The same compressed, if that makes it smaller: so do clients."""
    plain = bytes(batch[HEADER_BYTES:])
    payload = plain if codec == "none" else pack(codec, plain)
    if len(payload) >= len(plain):
        return batch
    return patch(
        batch[:HEADER_BYTES] + payload,
        batch_length=HEADER_BYTES - 12 + len(payload),
        attributes=field(batch, "attributes") | CODECS[codec],
    )


def build_legacy(magic: int) -> bytearray:
    """A message set of magic 0 or 1."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, BASE_TIMESTAMP_MS if magic else None, b"key", b"value")
    return bytearray(builder.build())


def read(batch: bytes | bytearray | memoryview) -> list[Any]:
    """Its records as kafka-python reads them."""
    return list(DefaultRecordBatch(bytearray(batch)))


def inflate(attributes: int, packed: bytes) -> bytes:
    """The records of a batch, inflated; as they are if they can't be."""
    try:
        return unpack(attributes & 7, packed)
    except Exception:  # each library has its own
        return packed


def patch(batch: bytearray, **values: int) -> bytearray:
    """A copy with other header fields; the CRC fits again unless it is one of them."""
    changed = bytearray(batch)
    for name, value in values.items():
        at, form = FIELDS[name]
        struct.pack_into(form, changed, at, value)
    if "crc" not in values:
        struct.pack_into(">I", changed, FIELDS["crc"][0], crc32c(bytes(changed[CRC_START:])))
    return changed


def field(batch: bytes | bytearray | memoryview, name: str) -> int:
    """One field of a batch's header."""
    at, form = FIELDS[name]
    value: int = struct.unpack_from(form, batch, at)[0]
    return value


def around(payload: bytes, *, count: int, **values: int) -> bytearray:
    """A batch whose records are these bytes, valid or not."""
    head = build([Written()])[:HEADER_BYTES]
    length = HEADER_BYTES - 12 + len(payload)
    counts = {"batch_length": length, "record_count": count, "last_offset_delta": count - 1}
    return patch(head + payload, **counts, **values)


def varint(value: int) -> bytes:
    """Zigzag, as records have it."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    """Unsigned, as compact lengths have it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


PLAIN = build()
IDEMPOTENT = build(producer=(1000, 0, 0))

REFUSED: dict[str, tuple[bytearray, str]] = {
    "nothing": (bytearray(), "INVALID_RECORD"),
    "less than a length": (PLAIN[:11], "INVALID_RECORD"),
    "half a header": (PLAIN[:40], "INVALID_RECORD"),
    "half the records": (PLAIN[:-5], "INVALID_RECORD"),
    "a negative length": (patch(PLAIN, batch_length=-1), "CORRUPT_MESSAGE"),
    "a length below any message": (patch(PLAIN, batch_length=13), "CORRUPT_MESSAGE"),
    "a length of minus the prefix": (patch(PLAIN, batch_length=-12), "CORRUPT_MESSAGE"),
    "magic 0": (build_legacy(0), "INVALID_RECORD"),
    "magic 1": (build_legacy(1), "INVALID_RECORD"),
    "magic 3": (patch(PLAIN, magic=3), "CORRUPT_MESSAGE"),
    "magic -1": (patch(PLAIN, magic=-1), "CORRUPT_MESSAGE"),
    "two batches": (PLAIN + PLAIN, "INVALID_RECORD"),
    "a wrong CRC": (patch(PLAIN, crc=1), "CORRUPT_MESSAGE"),
    "a flipped bit": (PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]), "CORRUPT_MESSAGE"),
    "a base offset": (patch(PLAIN, base_offset=5), "INVALID_RECORD"),
    "no records": (patch(PLAIN, record_count=0, last_offset_delta=-1), "INVALID_RECORD"),
    "minus one record": (patch(PLAIN, record_count=-1, last_offset_delta=-2), "INVALID_RECORD"),
    "fewer records than offsets": (patch(PLAIN, record_count=2), "INVALID_RECORD"),
    "more records than offsets": (patch(PLAIN, record_count=4), "INVALID_RECORD"),
    "a control batch": (patch(PLAIN, attributes=CONTROL), "INVALID_RECORD"),
    "no sequence": (patch(IDEMPOTENT, base_sequence=-1), "INVALID_RECORD"),
}
"""What a client may not send, and the code that Apache Kafka 4.3.1 gives for it."""
