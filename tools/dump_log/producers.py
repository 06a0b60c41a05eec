"""Producer snapshots: the state of each producer of a partition at one offset."""

from __future__ import annotations

import struct
from typing import Any, Final

from kavka.log.producer_entry import ENTRY
from kavka.tools.dump_log.files import read_file
from kavka.tools.dump_log.java_values import decrement_sequence, optional_long
from kavka.tools.dump_log.shown import Complaints, Dump, Shown
from kavka.wire.crc import crc32c

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
VERSION_BYTES: Final = 2
HEAD_BYTES: Final = _HEAD.size + _COUNT.size


def dump_producers(path: str, complaints: Complaints) -> Dump:
    """Print a producer snapshot; what is wrong with it as a whole is a complaint."""
    data = read_file(path)
    problem = _problem(data)
    if problem:
        complaints.others.append(problem)
        return
    for fields in ENTRY.iter_unpack(_entries(data)):
        yield _producer(*fields)


def _problem(data: bytes) -> str:
    """In Apache Kafka's words; "" if there is none."""
    malformed = _malformation(data)
    if malformed:
        return f"Snapshot failed schema validation: {malformed}"
    _, crc = _HEAD.unpack_from(data)
    computed = crc32c(data[_HEAD.size :])
    if crc != computed:
        return (
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. "
            f"Computed crc: {computed}"
        )
    return ""


def _malformation(data: bytes) -> str:
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) >= VERSION_BYTES and version != VERSION:
        return f"Snapshot contained an unknown file version {version}"
    if len(data) < HEAD_BYTES:
        return "null"
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    left = len(data) - HEAD_BYTES
    if count < 0:
        return "non-nullable field producerEntries was serialized as null"
    if count > left:
        return (
            f"Tried to allocate a collection of size {count}, but there are only {left} bytes "
            "remaining."
        )
    return "null" if count * ENTRY.size > left else ""


def _entries(data: bytes) -> bytes:
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    return data[HEAD_BYTES : HEAD_BYTES + count * ENTRY.size]


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> Shown:
    transaction = first_offset if first_offset >= 0 else None
    entry: dict[str, Any] = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "coordinatorEpoch": coordinator_epoch,
        "currentTxnFirstOffset": transaction,
        "lastTimestamp": timestamp,
    }
    if last_offset >= 0:
        entry |= {
            "firstSequence": decrement_sequence(last_sequence, offset_delta),
            "lastSequence": last_sequence,
            "lastOffset": last_offset,
            "offsetDelta": offset_delta,
            "timestamp": timestamp,
        }
    shown = {**entry, "currentTxnFirstOffset": optional_long(transaction)}
    text = " ".join(f"{name}: {value}" for name, value in shown.items())
    return Shown(f"{text}\n", {"kind": "producer", **entry})
