"""Compacting a test's log on the spot, and what should come of it by a simple model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka.record import MemoryRecords

from kavka.log.compaction.order import (
    CompactionLimits,
    CompactionOrder,
    CompactionResult,
    LastRecords,
    Progress,
    Replacement,
)
from kavka.log.compaction.run import compact
from kavka.log.fs import FileSystem
from kavka.log.partition_log import PartitionLog
from support import logs
from support.virtual import InlineWorker

LIMITS = CompactionLimits(map_bytes=1 << 20, load_factor=0.9, read_bytes=1 << 16, bytes_per_s=1e12)


class Keyed(NamedTuple):
    """One record as kafka-python reads it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def order(
    log: PartitionLog,
    *,
    now_ms: int = logs.TIMESTAMP,
    limits: CompactionLimits = LIMITS,
    last_stable: int | None = None,
) -> CompactionOrder:
    """What there is to compact in a log."""
    start = log.compaction.first_dirty(log.start_offset, log.end_offset)
    cleanable = log.compaction.examine(
        log.settings,
        first_dirty=start,
        last_stable=log.end_offset if last_stable is None else last_stable,
        now_ms=now_ms,
    )
    producers = LastRecords.none()
    for _ in log.compaction.collect_last_records(producers):
        pass
    return log.compaction.order(log.settings, cleanable, producers, limits, now_ms)


def clean(
    log: PartitionLog,
    fs: FileSystem,
    *,
    now_ms: int = logs.TIMESTAMP,
    limits: CompactionLimits = LIMITS,
    last_stable: int | None = None,
) -> CompactionResult:
    """Compact what can be, and swap the files in as a broker does."""
    compaction_order = order(log, now_ms=now_ms, limits=limits, last_stable=last_stable)
    serial = log.compaction.serial

    def ignore(news: Progress | Replacement) -> None:
        if isinstance(news, Replacement):
            assert log.compaction.replace(log.settings, news, serial)

    outcome = compact(InlineWorker(ignore), fs, compaction_order)
    log.compaction.clean_upto = outcome.end_offset
    return outcome


def read_all(log: PartitionLog) -> list[Keyed]:
    """All records, with their keys, as a consumer fetches them; control records are left out."""
    found: list[Keyed] = []
    offset = log.start_offset
    while offset < log.end_offset:
        part = log.read(offset, 1 << 20, upto=log.end_offset, at_least_one=True)
        if part is None:
            break
        data = logs.bytes_of(part)
        found += [record for record in records_of(data) if record.offset >= offset]
        offset = end_of(data)
    return found


def records_of(data: bytes) -> Iterator[Keyed]:
    """The records of the whole batches in `data`, but for control records."""
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        if not batch.is_control_batch:
            for record in batch:
                yield Keyed(record.offset, record.key, record.value, record.timestamp)


def end_of(data: bytes) -> int:
    """The offset after the last whole batch; by the header alone, for it may have no records."""
    position = end = 0
    while position + 61 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        base = int.from_bytes(data[position : position + 8], "big")
        end = base + int.from_bytes(data[position + 23 : position + 27], "big") + 1
        position += size
    return end


def compacted(records: Sequence[Keyed], first_dirty: int, end: int) -> list[Keyed]:
    """What is to be left of `records` when those below `end` are compacted and no tombstone may
    go yet: a record goes if the dirty part has a later one with its key, or if it has no key."""
    last = {
        record.key: record.offset
        for record in records
        if first_dirty <= record.offset < end and record.key is not None
    }
    return [
        record
        for record in records
        if record.offset >= end
        or (record.key is not None and last.get(record.key, -1) <= record.offset)
    ]
