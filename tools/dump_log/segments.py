"""Segment files, and KRaft's snapshots, which have the same form: their batches and records."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log import batches
from kavka.tools.dump_log.batches import Batch, iter_batches, open_segment, slice_end
from kavka.tools.dump_log.decoders import Decoder
from kavka.tools.dump_log.java_values import INT_MAX, boolean, json_text, optional_long
from kavka.tools.dump_log.messages import Malformed, family, read_message
from kavka.tools.dump_log.paths import absolute, base_offset, name_of
from kavka.tools.dump_log.records import Record
from kavka.tools.dump_log.shown import Complaints, Dump, Shown
from kavka.tools.java_numbers import parse_int, parse_long
from kavka.tools.progress import progress
from kavka.wire.record_batches import BatchHeader

SNAPSHOT: Final = ".checkpoint"
BOOTSTRAP: Final = "bootstrap.checkpoint"
OFFSET_DIGITS: Final = 20
EPOCH_DIGITS: Final = 10

_KEY: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")
MARKERS: Final = ("ABORT", "COMMIT")
LEADER_CHANGE: Final = "LeaderChangeMessage"
KRAFT: Final = {
    2: (" LeaderChange: ", LEADER_CHANGE),
    3: (" SnapshotHeader ", "SnapshotHeaderRecord"),
    4: (" SnapshotFooter ", "SnapshotFooterRecord"),
    5: (" KRaftVersion ", "KRaftVersionRecord"),
    6: (" KRaftVoters ", "VotersRecord"),
}
"""Control records that only a KRaft log has, by type."""
NO_DIRECTORY: Final = "A" * 22
"""What a directory id of zeros looks like."""


class DumpOptions(NamedTuple):
    """What is to be printed of a segment."""

    is_deep: bool
    """Records too, not only batches."""
    has_content: bool
    """Keys and values."""
    has_metadata: bool
    """Offset, timestamp and so on of each record."""
    max_bytes: int


def dump_segment(path: str, options: DumpOptions, decoder: Decoder, complaints: Complaints) -> Dump:
    """Print a segment or snapshot. Failed where no next batch can be found."""
    yield Shown(_title(path))
    with open_segment(path) as file:
        end = slice_end(file, 0, options.max_bytes)
        position, previous = 0, -1
        with progress(f"bytes of {name_of(path)}", end, prints=True) as step:
            for batch in iter_batches(file, 0, end):
                yield from _batch(batch)
                for record in batch.records() if options.is_deep else ():
                    if record.offset != previous + 1:
                        complaints.gaps.computed(absolute(path))[previous] = record.offset
                    previous = record.offset
                    yield from _record(batch, record, options, decoder)
                position = batch.position + batch.size
                step(batch.size)
        left = end - position
        if left > 0 and options.max_bytes == INT_MAX:
            text = f"Found {left} invalid bytes at the end of {name_of(path)}\n"
            yield Shown(text, {"kind": "end", "invalidBytes": left})


def _title(path: str) -> str:
    name = name_of(path)
    if name == BOOTSTRAP:
        return "KRaft bootstrap snapshot\n"
    if not name.endswith(SNAPSHOT):
        return f"Log starting offset: {base_offset(path)}\n"
    offset, epoch = name[:OFFSET_DIGITS], name[OFFSET_DIGITS + 1 :][:EPOCH_DIGITS]
    end_offset, end_epoch = parse_long(offset), parse_int(epoch)
    if end_offset is None or end_epoch is None:
        raise Failed(f"{path} is not named as a snapshot: <end offset>-<epoch>{SNAPSHOT}")
    return f"Snapshot end offset: {end_offset}, epoch: {end_epoch}\n"


# --- batches


def _batch(batch: Batch) -> Dump:
    if batch.is_old:
        yield from _old_batch(batch)
        return
    header = batch.header()
    entry = {
        "kind": "batch",
        "baseOffset": header.base_offset,
        "lastOffset": batches.last_offset(header),
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": batches.last_sequence(header),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": batches.delete_horizon(header),
    }
    shown = {
        **entry,
        "isTransactional": boolean(header.is_transactional),
        "isControl": boolean(header.is_control),
        "deleteHorizonMs": optional_long(batches.delete_horizon(header)),
    }
    del shown["kind"]
    yield Shown(" ".join(f"{name}: {value}" for name, value in shown.items()))
    yield _rest(batch, entry, header)


def _rest(batch: Batch, entry: dict[str, Any], header: BatchHeader) -> Shown:
    """What all magics have; it is what may be wrong with a batch."""
    kind = batches.timestamp_type(batches.is_by_log(header))
    codec = batches.codec(header.compression)
    is_valid = batches.is_valid(header, batch.data())
    return _end(batch, entry, kind, header.max_timestamp, codec, header.crc, is_valid)


def _old_batch(batch: Batch) -> Dump:
    yield Shown(f"offset: {batch.offset}")
    message = batch.message()
    kind = batches.timestamp_type(message.by_log) if message.magic else "NoTimestampType"
    codec = batches.codec(message.compression)
    entry = {"kind": "batch", "lastOffset": batch.offset}
    yield _end(batch, entry, kind, message.timestamp, codec, message.crc, message.is_valid)


def _end(
    batch: Batch,
    entry: dict[str, Any],
    kind: str,
    timestamp: int,
    codec: str,
    crc: int,
    is_valid: bool,
) -> Shown:
    text = (
        f" position: {batch.position} {kind}: {timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {codec} crc: {crc} isvalid: {boolean(is_valid)}\n"
    )
    entry |= {"position": batch.position, "timestampType": kind, "maxTimestamp": timestamp}
    entry |= {"size": batch.size, "magic": batch.magic, "codec": codec, "crc": crc}
    return Shown(text, entry | {"isValid": is_valid})


# --- records


def _record(batch: Batch, record: Record, options: DumpOptions, decoder: Decoder) -> Dump:
    is_control = not batch.is_old and batch.header().is_control
    entry: dict[str, Any] = {"kind": "record", "offset": record.offset}
    if options.has_metadata:
        yield _metadata(batch, record, entry)
        if is_control:
            yield _control(record, entry)
    if options.has_content and not is_control:
        prefix = " " if options.has_metadata else "| "
        decoded = decoder(record)
        for name, value in (("key", decoded.key), ("payload", decoded.value)):
            if value is not None:
                yield Shown(f"{prefix}{name}: {value}")
                prefix = " "
            entry[name] = value
    yield Shown("\n", entry)


def _metadata(batch: Batch, record: Record, entry: dict[str, Any]) -> Shown:
    if record.damage is not None and record.sizes is None:
        raise record.damage
    kind = _timestamp_type(batch)
    sizes = record.sizes or [
        -1 if data is None else len(data) for data in (record.key, record.value)
    ]
    text = f"| offset: {record.offset} {kind}: {record.timestamp} "
    text += f"keySize: {sizes[0]} valueSize: {sizes[1]}"
    entry |= {"timestamp": record.timestamp, "keySize": sizes[0], "valueSize": sizes[1]}
    if record.crc is not None:
        entry |= {"isValid": record.is_valid, "crc": record.crc}
        text += f" isValid: {boolean(record.is_valid)} crc: {record.crc}"
    else:
        entry |= {"sequence": record.sequence, "headerKeys": list(record.headers)}
        text += f" sequence: {record.sequence} headerKeys: [{','.join(record.headers)}]"
    return Shown(text)


def _timestamp_type(batch: Batch) -> str:
    if not batch.is_old:
        return batches.timestamp_type(batches.is_by_log(batch.header()))
    message = batch.message()
    return batches.timestamp_type(message.by_log) if message.magic else "NoTimestampType"


def _control(record: Record, entry: dict[str, Any]) -> Shown:
    """A marker of a transaction, or a control record of KRaft's. Failed if it is malformed."""
    if record.key is None or len(record.key) < _KEY.size:
        raise Failed(f"the control record at offset {record.offset} has no type")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise Failed(f"Invalid version {version} of the control record at offset {record.offset}")
    if kind in KRAFT:
        prefix, name = KRAFT[kind]
        content = _kraft(record, name)
        entry["control"] = {"type": name, "data": content}
        return Shown(f"{prefix}{json_text(content)}")
    if not 0 <= kind < len(MARKERS):
        entry["control"] = {"type": kind}
        return Shown(f" controlType: UNKNOWN({kind})")
    if record.value is None or len(record.value) < _MARKER.size:
        raise Failed(f"the marker at offset {record.offset} has no coordinator epoch")
    version, epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise Failed(f"Invalid version {version} of the marker at offset {record.offset}")
    entry["control"] = {"type": MARKERS[kind], "coordinatorEpoch": epoch}
    return Shown(f" endTxnMarker: {MARKERS[kind]} coordinatorEpoch: {epoch}")


def _kraft(record: Record, name: str) -> dict[str, Any]:
    """It is read as of version 0, and shown as of the version that its first field says."""
    schema, value = family("control")[name], record.value or b""
    try:
        content, _ = read_message(schema, value, 0)
    except Malformed as malformed:
        raise Failed(f"the control record at offset {record.offset}: {malformed}") from malformed
    if name == LEADER_CHANGE and content["version"] > 0:
        for voter in (*content["voters"], *content["grantingVoters"]):
            voter["voterDirectoryId"] = NO_DIRECTORY
    return content
