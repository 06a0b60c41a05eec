"""The indexes of segments: offset, time and transaction index."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log.batches import Batch, iter_batches, open_segment, slice_end
from kavka.tools.dump_log.files import InputFile, read_file
from kavka.tools.dump_log.java_values import INT_MAX
from kavka.tools.dump_log.paths import absolute, base_offset, sibling
from kavka.tools.dump_log.shown import Complaints, Dump, Shown

LOG: Final = ".log"
INDEX: Final = ".index"
NO_TIMESTAMP: Final = -1
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED: Final = struct.Struct(">bxqqqq")  # of the version the first byte counts
HOT_ENTRIES: Final = 8192 // _OFFSET_ENTRY.size
"""The newest entries of an index, which are searched first."""
ABORTED_VERSION: Final = 0
ABORTED_FIELDS: Final = (
    "version",
    "producerId",
    "firstOffset",
    "lastOffset",
    "lastStableOffset",
)


def dump_index(
    path: str, complaints: Complaints, *, check_form: bool, quiet: bool, max_message_size: int
) -> Dump:
    """Print an offset index and compare it with its segment; or check its form only. Failed where
    an entry points to no batch."""
    base = base_offset(path)
    with open_segment(sibling(path, LOG)) as log:
        data = read_file(path)
        entries = _offset_entries(data, base)
        if not entries:
            yield Shown(f"{path} is empty.\n", {"kind": "check", "result": "empty"})
            return
        if check_form:
            _check_form(path, data, _OFFSET_ENTRY.size, base, entries[-1][0])
            yield _passed(path)
            return
        for number, (offset, position) in enumerate(entries):
            if offset == base and number:  # zeros, of an index that was open when its broker died
                return
            found = _first_batch(log, position, max_message_size).last_offset()
            if found != offset:
                complaints.other_batches.computed(absolute(path))[offset] = found
            if not quiet:
                entry = {"kind": "indexEntry", "offset": offset, "position": position}
                yield Shown(f"offset: {offset} position: {position}\n", entry)


def dump_time_index(path: str, complaints: Complaints, *, check_form: bool, quiet: bool) -> Dump:
    """Print a time index and compare it with its segment; or check its form only. Failed where an
    entry points to what is no batch."""
    base = base_offset(path)
    with open_segment(sibling(path, LOG)) as log:
        index = _offset_entries(read_file(sibling(path, INDEX)), base)
        data = read_file(path)
        entries = [
            (timestamp, base + relative)
            for timestamp, relative in _TIME_ENTRY.iter_unpack(_whole(data, _TIME_ENTRY.size))
        ]
        if check_form:
            if entries and entries[-1][0] < entries[0][0]:
                raise Failed(
                    f"Corrupt time index found, time index file ({absolute(path)}) has non-zero "
                    f"size but the last timestamp is {entries[-1][0]} which is less than the first "
                    f"timestamp {entries[0][0]}"
                )
            _check_form(path, data, _TIME_ENTRY.size, base, entries[-1][1] if entries else base)
            yield _passed(path)
            return
        before = NO_TIMESTAMP
        for number, (timestamp, offset) in enumerate(entries):
            if offset == base and number:
                return
            batches = iter_batches(log, start := _floor(index, offset), _end(log, start))
            _compare(absolute(path), batches, timestamp, offset, before, complaints)
            if not quiet:
                entry = {"kind": "timeIndexEntry", "timestamp": timestamp, "offset": offset}
                yield Shown(f"timestamp: {timestamp} offset: {offset}\n", entry)
            before = timestamp


def dump_txn_index(path: str) -> Dump:
    """Print a transaction index; one that is not there has no entries."""
    base_offset(path)
    try:
        data = read_file(path)
    except Failed as failed:
        if isinstance(failed.__cause__, FileNotFoundError):
            return
        raise
    found = list(_ABORTED.iter_unpack(_whole(data, _ABORTED.size)))
    for version, *_ in found:
        if version > ABORTED_VERSION:
            raise Failed(
                f"Unexpected aborted transaction version {version} in transaction index "
                f"{absolute(path)}, current version is {ABORTED_VERSION}"
            )
    for entry in found:
        fields = dict(zip(ABORTED_FIELDS, entry, strict=True))
        text = " ".join(f"{name}: {value}" for name, value in fields.items())
        yield Shown(f"{text}\n", {"kind": "abortedTransaction", **fields})


def _passed(path: str) -> Shown:
    return Shown(f"{path} passed sanity check.\n", {"kind": "check", "result": "passed"})


def _whole(data: bytes, size: int) -> bytes:
    return data[: len(data) - len(data) % size]


def _offset_entries(data: bytes, base: int) -> list[tuple[int, int]]:
    return [
        (base + relative, position)
        for relative, position in _OFFSET_ENTRY.iter_unpack(_whole(data, _OFFSET_ENTRY.size))
    ]


def _check_form(path: str, data: bytes, size: int, base: int, last: int) -> None:
    """What a starting broker checks before it uses an index. Failed."""
    if last < base:
        raise Failed(
            f"Corrupt index found, index file ({absolute(path)}) has non-zero size but the last "
            f"offset is {last} which is less than the base offset {base}"
        )
    if len(data) % size:
        raise Failed(
            f"Corrupt index found, index file ({absolute(path)}) is corrupt: its {len(data)} bytes "
            f"are no multiple of {size}"
        )


def _first_batch(log: InputFile, position: int, size: int) -> Batch:
    batch = next(iter_batches(log, position, slice_end(log, position, size)), None)
    if batch is None:
        raise Failed(f"{log.path} has no whole batch at position {position}")
    return batch


def _end(log: InputFile, start: int) -> int:
    return slice_end(log, start, INT_MAX)


def _floor(index: list[tuple[int, int]], offset: int) -> int:
    """The position of the last entry that is not above an offset. Where a damaged index is out of
    order, the one that Apache Kafka's search finds: it looks at the newest entries first."""
    if not index:
        return 0
    hot = max(0, len(index) - 1 - HOT_ENTRIES)
    if index[hot][0] < offset:
        low, high = hot, len(index) - 1
    elif index[0][0] > offset:
        return 0
    else:
        low, high = 0, hot
    while low < high:
        middle = (low + high + 1) // 2
        found = index[middle][0]
        if found == offset:
            return index[middle][1]
        low, high = (low, middle - 1) if found > offset else (middle, high)
    return index[low][1]


def _compare(
    path: str,
    batches: Iterator[Batch],
    timestamp: int,
    offset: int,
    before: int,
    complaints: Complaints,
) -> None:
    all_batches = list(batches)  # damage further on counts too, as with Apache Kafka
    found = next((batch for batch in all_batches if batch.last_offset() >= offset), None)
    if found is None or found.last_offset() != offset:
        last = -1 if found is None else found.last_offset()
        complaints.not_found.computed(path).append((offset, last))
        return
    newest = max(found.timestamps(), default=NO_TIMESTAMP)
    newest = max(newest, NO_TIMESTAMP)
    if newest != timestamp:
        complaints.other_timestamps.computed(path).append((timestamp, newest))
    if before >= timestamp:
        complaints.out_of_order.computed(path).append((timestamp, before))
