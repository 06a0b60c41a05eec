"""Compacts one log, in a separate process.

It reads closed segments by file name and writes `.cleaned` files. It reports each completed group
of segments; the broker then swaps the files, unless the log has been truncated or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kavka.log.compaction.cleaned import CleanedSegment
from kavka.log.compaction.filtering import (
    BatchFilter,
    header_of,
    marker_of,
    open_records,
)
from kavka.log.compaction.grouping import SegmentSize, group
from kavka.log.compaction.offset_map import OffsetMap
from kavka.log.compaction.order import (
    UNKNOWN,
    CompactionOrder,
    CompactionResult,
    LastRecord,
    Progress,
    Replacement,
)
from kavka.log.compaction.parsed_records import BrokenRecords
from kavka.log.compaction.throttle import Throttle
from kavka.log.compaction.transactions import CleanedTransactions
from kavka.log.errors import CorruptFileError, CorruptLogError
from kavka.log.fs import FileSystem
from kavka.log.interrupted_work import CLEANED
from kavka.log.producer_state import read_snapshot
from kavka.log.scan import header_error
from kavka.log.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from kavka.log.snapshots import SUFFIX as SNAPSHOT
from kavka.log.txn_index import TXN_ENTRY_BYTES, AbortedTxn, TxnIndex
from kavka.seams import Worker
from kavka.wire.crc import crc32c
from kavka.wire.record_batches import CRC_START, HEADER_BYTES, BatchHeader, read_header

REPORT_INTERVAL_S: Final = 1.0
"""Seconds between two messages, at which the broker may cancel the work."""

READ_BYTES_MIN: Final = 4096
"""Bytes read at a time, however small the configured buffer."""

READ_BYTES_MAX: Final = 65536
"""Bytes read at a time, however large the configured buffer: on a kernel that does not preempt
system calls, a broker on the same core waits for the copy."""

BROKEN_REPORTED_MAX: Final = 20
"""Broken batches that are reported individually."""


def compact(worker: Worker, fs: FileSystem, order: CompactionOrder) -> CompactionResult:
    """Write the cleaned segments for `order`, sending `Replacement` and `Progress` messages.

    CorruptLogError for a damaged batch; OSError. Only `.cleaned` files have changed.
    """
    return _Run(worker, fs, order).run()


def remove_cleaned(worker: Worker, fs: FileSystem, directory: str) -> None:
    """Remove the files of an interrupted run. OSError."""
    for name in fs.list_dir(directory):
        if name.endswith(CLEANED):
            fs.remove(f"{directory}/{name}")


class _Run:
    def __init__(self, worker: Worker, fs: FileSystem, order: CompactionOrder) -> None:
        self._worker = worker
        self._fs = fs
        self._order = order
        self._throttle = Throttle(order.limits.bytes_per_s, worker)
        self._result = CompactionResult(order.first_dirty)
        self._began_s = self._reported_s = worker.monotonic_s()
        self._bytes_done = 0
        self._bytes_in_all = 0

    def run(self) -> CompactionResult:
        order, result = self._order, self._result
        # with old .cleaned files recovery would undo an interrupted swap: see `interrupted_work`
        remove_cleaned(self._worker, self._fs, order.directory)
        aborted = self._aborted()
        offsets = self._index([txn for txn in aborted if txn.last_offset >= order.first_dirty])
        result.index_s = self._worker.monotonic_s() - self._began_s
        result.end_offset = offsets.latest_offset + 1
        result.map_utilization = offsets.utilization
        producers = order.producers.by_producer()
        batch_filter = BatchFilter(
            offsets,
            CleanedTransactions(aborted),
            producers,
            self._last_before_end(producers),
            now_ms=order.now_ms,
            delete_retention_ms=order.settings.delete_retention_ms,
        )
        settings = order.settings
        sizes = self._sizes(result.end_offset)
        self._bytes_in_all += sum(segment.log for segment in sizes)
        for segments in group(sizes, settings.segment_bytes, settings.segment_index_bytes):
            self._rewrite(segments, batch_filter)
        result.records_read = batch_filter.counts.records_read
        result.records_kept = batch_filter.counts.records_kept
        result.records_keyless = batch_filter.counts.records_keyless
        result.waited_s = self._throttle.waited_s
        result.total_s = self._worker.monotonic_s() - self._began_s
        return result

    def _aborted(self) -> list[AbortedTxn]:
        """All aborted transactions in the transaction indexes."""
        found: list[AbortedTxn] = []
        for base in (*(base for base, _ in self._order.segments), *self._order.later_bases):
            path = self._path(base, TXN_INDEX)
            if self._fs.exists(path):
                found += TxnIndex(self._fs, path, self._fs.size(path) // TXN_ENTRY_BYTES).entries()
        return found

    def _last_before_end(self, producers: Mapping[int, LastRecord]) -> dict[int, LastRecord]:
        """The last records below `end_offset` of producers that may have written at or after it,
        from the snapshot there; `UNKNOWN` if that is missing."""
        end = self._order.end_offset
        producer_ids = {
            producer_id for producer_id, last in producers.items() if not 0 <= last.offset < end
        }
        path = self._path(end, SNAPSHOT)
        if not producer_ids:
            return {}
        found = {}
        try:
            for part in read_snapshot(self._fs.open(path), path):
                for producer_id, epoch, _, last_offset, *_ in part:
                    if producer_id in producer_ids:
                        found[producer_id] = LastRecord(last_offset, epoch)
        except (FileNotFoundError, CorruptFileError):
            return dict.fromkeys(producer_ids, UNKNOWN)
        return found

    def _sizes(self, end_offset: int) -> list[SegmentSize]:
        """The sizes of the segments with a base offset below `end_offset`."""
        return [
            SegmentSize(
                base,
                end,
                size,
                self._size_of_index(base, INDEX),
                self._size_of_index(base, TIME_INDEX),
            )
            for base, size, end in self._spans()
            if base < end_offset
        ]

    def _size_of_index(self, base: int, suffix: str) -> int:
        """The size of an index; 0 if it is missing: it is rebuilt on its next use."""
        path = self._path(base, suffix)
        return self._fs.size(path) if self._fs.exists(path) else 0

    def _spans(self) -> list[tuple[int, int, int]]:
        """Base offset and size of each segment, and the base offset of the next one."""
        segments = self._order.segments
        ends = [*(base for base, _ in segments), self._order.end_offset][1:]
        return [(base, size, end) for (base, size), end in zip(segments, ends, strict=False)]

    def _path(self, base: int, suffix: str) -> str:
        return f"{self._order.directory}/{file_name(base, suffix)}"

    # --- the map

    def _index(self, aborted: Sequence[AbortedTxn]) -> OffsetMap:
        """The map of the last offset of each key, from the first dirty offset until it is full."""
        order, limits = self._order, self._order.limits
        expected = order.end_offset - order.first_dirty
        offsets = OffsetMap(limits.map_bytes, limits.load_factor, expected)
        offsets.latest_offset = order.first_dirty - 1
        transactions = CleanedTransactions(aborted)
        dirty = [span for span in self._spans() if span[2] > order.first_dirty]
        self._bytes_in_all = sum(size for _, size, _ in dirty)
        for base, size, end in dirty:
            if not self._index_segment(base, size, offsets, transactions):
                break
            offsets.latest_offset = end - 1
        return offsets

    def _index_segment(
        self, base: int, size: int, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> bool:
        """Add a segment's keys; whether there was room for all."""
        for _, header, batch in self._batches("indexing", base, size):
            if header.last_offset < self._order.first_dirty:
                continue
            self._result.bytes_indexed += len(batch)
            if header.is_control:
                transactions.on_control_batch(header, marker_of(header, batch))
            elif not transactions.is_aborted_batch(header) and not self._put(
                header, batch, offsets
            ):
                return False
            offsets.latest_offset = header.last_offset
        return True

    def _put(self, header: BatchHeader, batch: bytes, offsets: OffsetMap) -> bool:
        """Add a batch's keys; whether there was room for all. Keys are added until the map is full,
        as in Apache Kafka: otherwise compaction would never get past a big batch."""
        try:
            records = open_records(header, batch)
        except BrokenRecords:
            return True  # the filter keeps it unchanged and reports it
        keys, deltas = records.keys, records.deltas
        if records.keyless or header.base_offset < self._order.first_dirty:
            before = self._order.first_dirty - header.base_offset
            keyless = frozenset(records.keyless)
            pairs = list(enumerate(zip(keys, deltas, strict=True)))
            to_add = [pair for slot, pair in pairs if slot not in keyless and pair[1] >= before]
            keys, deltas = [key for key, _ in to_add], [delta for _, delta in to_add]
        if len(keys) <= offsets.room:
            offsets.put(keys, deltas, header.base_offset)
            return True
        for key, delta in zip(keys, deltas, strict=True):
            if not offsets.room:
                return False
            offsets.put((key,), (delta,), header.base_offset)
            offsets.latest_offset = header.base_offset + delta
        return True

    # --- the segments

    def _rewrite(self, segments: Sequence[SegmentSize], batch_filter: BatchFilter) -> None:
        """Rewrite a group and report it, unless it is a single segment that does not change."""
        written = [self._begin(segments[0].base_offset)]
        changed = len(segments) > 1
        for segment in segments:
            for position, header, batch in self._batches(
                "cleaning", segment.base_offset, segment.log
            ):
                is_last = segment is segments[-1] and position + len(batch) == segment.log
                broken = batch_filter.counts.batches_broken
                kept = batch_filter.filter_batch(header, batch, is_last=is_last)
                if batch_filter.counts.batches_broken > broken:
                    self._report_broken(segment.base_offset, position)
                changed |= kept is not batch
                if kept is not None:
                    self._write(written, kept, header_of(kept, header, batch))
                written[-1].add_aborted(batch_filter.aborted)
                batch_filter.aborted.clear()
        if not changed and len(written) == 1:
            written[0].discard()
            self._result.bytes_written += written[0].size
            return
        modified_ms = self._fs.modified_ms(self._path(segments[-1].base_offset, LOG))
        for cleaned in written:
            cleaned.finish(modified_ms)
            self._result.bytes_written += cleaned.size
        self._fs.sync_dir(self._order.directory)
        self._worker.report(
            Replacement(
                tuple(segment.base_offset for segment in segments),
                tuple((cleaned.base_offset, cleaned.size) for cleaned in written),
            )
        )

    def _begin(self, base_offset: int) -> CleanedSegment:
        order = self._order
        return CleanedSegment(self._fs, order.directory, base_offset, order.settings)

    def _write(
        self, written: list[CleanedSegment], batch: bytes | bytearray, header: BatchHeader
    ) -> None:
        if not written[-1].has_room(len(batch), header.last_offset):
            written.append(self._begin(written[-1].next_offset))
        written[-1].append(batch, header.last_offset, header.newest_timestamp)
        self._throttle.spend(len(batch))

    def _report_broken(self, base: int, position: int) -> None:
        if len(self._result.batches_broken) < BROKEN_REPORTED_MAX:
            self._result.batches_broken.append(f"{self._path(base, LOG)} at byte {position}")

    # --- reading

    def _batches(
        self, stage: str, base: int, size: int
    ) -> Iterator[tuple[int, BatchHeader, bytes]]:
        """Positions, headers and bytes of a segment's batches; CorruptLogError."""
        path = self._path(base, LOG)
        file = self._fs.open(path)
        position = 0
        usual = read_bytes = max(min(self._order.limits.read_bytes, READ_BYTES_MAX), READ_BYTES_MIN)
        while position < size:
            chunk = file.pread(min(read_bytes, size - position), position)
            if len(chunk) < min(read_bytes, size - position):
                raise CorruptLogError(path, position, "the file is shorter than expected")
            read_bytes = usual
            view = memoryview(chunk)
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                header = read_header(chunk, at)
                end = at + header.size
                why = header_error(
                    header.size, header.magic, header.last_offset_delta, size - position
                )
                if why:
                    raise CorruptLogError(path, position, why)
                if end > len(chunk):
                    read_bytes = max(read_bytes, header.size)
                    break
                if crc32c(view[at + CRC_START : end]) != header.crc:
                    raise CorruptLogError(path, position, "its checksum is wrong")
                yield position, header, chunk[at:end]
                position += header.size
                at = end
            if not at and min(read_bytes, size - position) <= len(chunk):
                raise CorruptLogError(path, position, "the file ends within a batch")
            self._read(stage, at)

    def _read(self, stage: str, size: int) -> None:
        self._throttle.spend(size)
        self._bytes_done += size
        if stage == "cleaning":
            self._result.bytes_read += size
        now_s = self._worker.monotonic_s()
        if now_s - self._reported_s >= REPORT_INTERVAL_S:
            self._reported_s = now_s
            self._worker.report(Progress(stage, self._bytes_done, self._bytes_in_all))
