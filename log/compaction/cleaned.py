"""A segment being written by compaction, with the suffix `.cleaned` until it is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.log.fs import Buffer, FileSystem
from kavka.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexCache, OffsetIndex, TimeIndex
from kavka.log.interrupted_work import CLEANED
from kavka.log.segment import (
    FILES,
    INDEX,
    LOG,
    RELATIVE_OFFSET_MAX,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from kavka.log.settings import LogSettings
from kavka.log.txn_index import AbortedTxn, TxnIndex

SIZE_MAX: Final = 0x7FFFFFFF
"""Maximum size of a segment: positions in an index have 31 bits."""

WRITE_BYTES: Final = 1 << 16
"""Bytes buffered before a write; limited for the same reason as `run.READ_BYTES_MAX`."""

SYNC_BYTES: Final = 32 << 20
"""Bytes written between two fsyncs, so that the last fsync, which may block other I/O, is
small."""


class CleanedSegment:
    """The kept batches from `base_offset` on, with their indexes."""

    def __init__(
        self, fs: FileSystem, directory: str, base_offset: int, settings: LogSettings
    ) -> None:
        """Its files must not exist."""
        self.base_offset = base_offset
        self.size = 0
        """Bytes of all batches."""
        self.next_offset = base_offset
        """The offset after the last batch."""
        self._fs = fs
        self._settings = settings
        self._paths = {
            suffix: f"{directory}/{file_name(base_offset, suffix)}{CLEANED}" for suffix in FILES
        }
        self._file = fs.create(self._paths[LOG])
        for suffix in (INDEX, TIME_INDEX):
            fs.create(self._paths[suffix])
        self._offsets = OffsetIndex(fs, IndexCache(0), self._paths[INDEX], base_offset, 0)
        self._times = TimeIndex(fs, self._paths[TIME_INDEX], base_offset, 0)
        self._txns = TxnIndex(fs, self._paths[TXN_INDEX])
        self._waiting: list[Buffer] = []
        self._written = 0
        self._synced = 0
        self._since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset

    def has_room(self, size: int, last_offset: int) -> bool:
        """Whether a batch fits within the limits of the segment and its indexes."""
        settings = self._settings
        limit = settings.segment_index_bytes
        return self.size == 0 or (
            self.size + size <= SIZE_MAX
            and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
            and len(self._offsets) < limit // OFFSET_ENTRY_BYTES
            and len(self._times) < limit // TIME_ENTRY_BYTES - 1
        )

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Append a batch and index it as `Segment.append` does."""
        position = self.size
        self._waiting.append(batch)
        self.size += len(batch)
        self.next_offset = last_offset + 1
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._since_entry > self._settings.index_interval_bytes:
            self._offsets.append(last_offset, position)
            self._times.append(self._max_timestamp, self._max_timestamp_offset)
            self._since_entry = 0
        self._since_entry += len(batch)
        if self.size - self._written >= WRITE_BYTES:
            self._write()

    def add_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions whose markers are in this segment."""
        for txn in aborted:
            self._txns.append(txn)

    def _write(self) -> None:
        self._file.pwrite(b"".join(self._waiting), self._written)
        self._written = self.size
        self._waiting.clear()
        if self._offsets.needs_write:
            self._offsets.write()
            self._times.write()
        if self._written - self._synced >= SYNC_BYTES:
            self._file.sync()
            self._synced = self._written

    def finish(self, modified_ms: int | None = None) -> None:
        """Flush all files; the caller has to sync the directory.

        `modified_ms`: the modification time of the source segment. It is the age for retention
        if no record has a timestamp.
        """
        self._write()
        if self._max_timestamp >= 0:
            self._times.append(self._max_timestamp, self._max_timestamp_offset)
        self._offsets.write()
        self._times.write()
        self._file.sync()
        self._file.close()
        if modified_ms is not None:
            self._fs.set_modified_ms(self._paths[LOG], modified_ms)
        for suffix in (INDEX, TIME_INDEX, *((TXN_INDEX,) if self._txns.count else ())):
            self._fs.sync_file(self._paths[suffix])

    def discard(self) -> None:
        """Remove the files."""
        self._file.close()
        for path in self._paths.values():
            if self._fs.exists(path):
                self._fs.remove(path)
