"""Loads a coordinator partition: replays its log into the state machine.

The file is read in threads. The records are applied on the event loop in short slices, of few
partitions at a time. A corrupt record is logged and skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from kavka.log.errors import StorageError
from kavka.log.fs import is_fd_exhaustion
from kavka.log.journal import JournalRecord, Machine, Producer
from kavka.log.pairs import BROKEN, add_pairs
from kavka.seams import Clock, Jobs, Tasks
from kavka.server.replica.replica import Replica
from kavka.server.runtime.cooperative import run_rest
from kavka.wire.control_records import MARKER_BYTES_MAX, read_marker
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError
from kavka.wire.inflating import decompress_in_steps
from kavka.wire.record_batches import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    CURRENT_MAGIC,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

LOADS_AT_ONCE_MAX: Final = 2
"""Partitions that are loaded at a time; each takes a slice of every iteration of the loop."""

SHORTAGE_RETRY_S: Final = 1.0
"""When a read that failed for lack of file descriptors is retried."""

SLICE_S: Final = 0.0005
"""How long records of one partition are applied before a yield to the event loop."""

CHUNK_RECORDS: Final = 200
"""Records applied at a time, at about a microsecond each."""

CHUNK_BYTES: Final = 32 * 1024
"""The same in bytes, at up to 0.1 us each."""

SKIPPED_LINES_MAX: Final = 20
"""Log lines about skipped records of one partition; further ones are only counted."""

KEY_SHOWN_BYTES: Final = 100

LoadSlots: TypeAlias = asyncio.Semaphore
"""A semaphore of LOADS_AT_ONCE_MAX."""

_SPECIAL: Final = COMPRESSION_MASK | CONTROL | TRANSACTIONAL


class Superseded(Exception):
    """The partition has another leader, or another leader epoch, by now."""


class LoadSummary(NamedTuple):
    """The result of a load, for the log and the metrics."""

    end: int
    """The offset up to which all records are applied."""
    records: int
    size_bytes: int
    began_ms: int
    took_ms: int
    queued_ms: int
    """The part of `took_ms` spent waiting for a load slot."""


async def load(
    replica: Replica,
    machine: Machine,
    *,
    bytes_max: int,
    is_current: Callable[[], bool],
    clock: Clock,
    tasks: Tasks,
    jobs: Jobs,
    load_slots: LoadSlots,
    on_slice: Callable[[], object],
) -> LoadSummary:
    """Replay the whole log, reading `bytes_max` at a time; `on_slice` is called after each slice.
    On return everything up to the log end offset is applied, until the next yield to the event
    loop. Superseded once `is_current` is false; OSError, StorageError if the log can't be read."""
    began_ms = clock.now_ms()
    async with load_slots:
        queued_ms = clock.now_ms() - began_ms
        replay = _Replay(replica, machine, bytes_max, is_current, on_slice, clock)
        end = None
        while end is None:
            try:
                end = await run_rest(tasks, replay.steps(), jobs=jobs)
            except OSError as failure:
                if not is_fd_exhaustion(failure):
                    raise
                logger.error(
                    "can't load %s-%d for lack of file descriptors; retrying in %g s: %s",
                    *replica.key,
                    SHORTAGE_RETRY_S,
                    failure,
                )
                await tasks.sleep(SHORTAGE_RETRY_S)
    took_ms = clock.now_ms() - began_ms
    return LoadSummary(end, replay.records, replay.size_bytes, began_ms, took_ms, queued_ms)


class _Replay:
    """One replay."""

    def __init__(
        self,
        replica: Replica,
        machine: Machine,
        bytes_max: int,
        is_current: Callable[[], bool],
        on_slice: Callable[[], object],
        clock: Clock,
    ) -> None:
        self.records = 0
        self.size_bytes = 0
        self._replica = replica
        self._machine = machine
        self._bytes_max = bytes_max
        self._is_current = is_current
        self._on_slice = on_slice
        self._offset = replica.log.start_offset
        self._now_s = clock.monotonic_s
        self._slice_ends_s = 0.0
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._skipped = 0

    def steps(self) -> Steps[int]:
        """Replay the log, or the rest of it. Returns the log end offset that was reached."""
        log = self._replica.log
        while True:
            if not self._is_current():
                raise Superseded
            offset = max(self._offset, log.start_offset)
            if offset >= log.end_offset:
                break
            found = log.read(offset, self._bytes_max, upto=log.end_offset, at_least_one=True)
            if found is None:  # the log was emptied meanwhile
                break
            data: bytes = yield found.file.pread, found.length, found.position
            self._begin_slice()
            self._offset = yield from self._apply_batches(data)
            if self._offset <= offset:
                raise StorageError(f"{self._name} has no batch with offset {offset}")
        self._apply_pending()
        self._on_slice()
        if self._skipped > SKIPPED_LINES_MAX:
            more = self._skipped - SKIPPED_LINES_MAX
            logger.error("%s: skipped %d more batches or records", self._name, more)
        return log.end_offset

    @property
    def _name(self) -> str:
        return "{}-{}".format(*self._replica.key)

    def _begin_slice(self) -> None:
        self._slice_ends_s = self._now_s() + SLICE_S

    def _pause(self) -> Steps[None]:
        """Apply the collected records, and yield to the event loop if the slice is over."""
        self._apply_pending()
        if self._now_s() >= self._slice_ends_s:
            self._on_slice()
            yield None
            self._begin_slice()

    def _apply_batches(self, data: bytes) -> Steps[int]:
        """Apply the batches in `data`, the last of which may be incomplete. Returns the offset to
        continue from.

        Inlined for speed, as there may be a million batches of one record each."""
        keys, values, view = self._keys, self._values, memoryview(data)
        position, held, offset, unpack = 0, len(data), -1, HEADER.unpack_from
        applied_upto = 0
        while position + HEADER_BYTES <= held:
            base, length, _, magic, crc, attributes, delta, _, _, _, _, _, count = unpack(
                data, position
            )
            end = position + length + LENGTH_PREFIX_BYTES
            if end > held or length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
                break
            if crc32c(view[position + CRC_START : end]) != crc or magic != CURRENT_MAGIC:
                self._skip(base, "its checksum is wrong")
            elif attributes & _SPECIAL or count > CHUNK_RECORDS or length > CHUNK_BYTES:
                yield from self._apply_special(data[position:end])
            else:
                kept = len(keys)
                try:
                    stop, keyless = add_pairs(data, position + HEADER_BYTES, count, keys, values)
                except BROKEN as failure:
                    del keys[kept:], values[kept:]
                    self._skip(base, failure)
                else:
                    if keyless or stop != end:
                        self._skip(base, _malformed(keyless))
            offset = base + delta + 1
            position = end
            if len(keys) >= CHUNK_RECORDS or position - applied_upto >= CHUNK_BYTES:
                applied_upto = position
                yield from self._pause()
        self.size_bytes += position
        return offset

    def _skip(self, base_offset: int, why: object) -> None:
        """Log that a batch, or a part of it, is not replayed."""
        self._skipped += 1
        if self._skipped <= SKIPPED_LINES_MAX:
            where = f"the batch at offset {base_offset}"
            logger.error("%s: skipped %s, or a part of it: %s", self._name, where, why)

    def _apply_special(self, batch: bytes) -> Steps[None]:
        """Apply a batch that is big, compressed, transactional, or a control batch."""
        header = read_header(batch)
        if header.attributes & CONTROL:
            self._apply_pending()
            yield from self._apply_marker(header, batch)
            return
        try:
            inner = memoryview(batch)[HEADER_BYTES:]
            payload = bytes((yield from decompress_in_steps(header.compression, inner)))
        except ApiError as failure:
            self._skip(header.base_offset, failure)
            return
        producer = None
        if header.attributes & TRANSACTIONAL:
            self._apply_pending()
            producer = Producer(header.producer_id, header.producer_epoch)
        keys, values = self._keys, self._values
        position, left, odd = 0, header.record_count, 0
        while left > 0:
            records_per_chunk = left * CHUNK_BYTES // max(len(payload) - position, CHUNK_BYTES)
            count, kept = max(1, min(records_per_chunk, CHUNK_RECORDS)), len(keys)
            try:
                position, keyless = add_pairs(payload, position, count, keys, values)
            except BROKEN as failure:
                del keys[kept:], values[kept:]
                self._skip(header.base_offset, failure)
                break
            odd += keyless
            left -= count
            if producer is not None:
                self._apply_one_by_one(producer)
            yield from self._pause()
        if odd or (not left and position != len(payload)):
            self._skip(header.base_offset, _malformed(odd))

    def _apply_marker(self, header: BatchHeader, batch: bytes) -> Steps[None]:
        try:
            marker = read_marker(header, batch) if len(batch) <= MARKER_BYTES_MAX else None
        except ApiError as failure:
            self._skip(header.base_offset, failure)
            return
        if marker is not None:
            yield from self._machine.apply_marker(
                header.producer_id, header.producer_epoch, marker.committed
            )

    def _apply_pending(self) -> None:
        """Apply the collected records."""
        keys, values = self._keys, self._values
        if keys:
            self.records += len(keys)
            try:
                self._machine.replay(keys, values)
            except Exception:  # perhaps of one record; applying the others again is harmless
                self._apply_one_by_one(None)
            keys.clear()
            values.clear()

    def _apply_one_by_one(self, producer: Producer | None) -> None:
        """Apply the collected records one by one, skipping those that fail; as records of a
        transaction, if `producer` is given."""
        if producer is not None:
            self.records += len(self._keys)
        for key, value in zip(self._keys, self._values, strict=True):
            try:
                self._machine.apply(JournalRecord(key, value), producer)
            except Exception:
                self._skipped += 1
                if self._skipped <= SKIPPED_LINES_MAX:
                    record = f"the record with the key {key[:KEY_SHOWN_BYTES]!r}"
                    logger.exception("%s: skipped %s", self._name, record)
        self._keys.clear()
        self._values.clear()


def _malformed(keyless: int) -> str:
    return f"{keyless} records without a key" if keyless else "it is longer than its records"
