"""Replays the log of a partition into the machine that lives in it.

The file is read in threads, and what was read is applied in slices of the loop, few of them in one
turn for all partitions together. A damaged record costs a line in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from kavka.log.errors import StorageError
from kavka.log.fs import is_shortage
from kavka.log.journal import Machine, Producer, Record
from kavka.log.pairs import BROKEN, add_pairs
from kavka.seams import Clock, Jobs, Tasks
from kavka.server.replica.replica import Replica
from kavka.server.runtime.cooperative import go_on_with_jobs
from kavka.wire.control_records import MARKER_BYTES_MAX, read_marker
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError
from kavka.wire.inflating import inflate
from kavka.wire.records import (
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
"""Partitions that are replayed at a time; each takes a slice of every turn of the loop."""

SHORTAGE_RETRY_S: Final = 1.0
"""When a log is read on that too many open files have kept from being read."""

SLICE_S: Final = 0.0005
"""How long records of one partition are applied before the loop gets a turn."""

CHUNK_RECORDS: Final = 200
"""Records handed to the machine at a time, at about a microsecond each."""

CHUNK_BYTES: Final = 32 * 1024
"""The same in bytes, at up to 0.1 us each."""

SKIPPED_LINES_MAX: Final = 20
"""Lines in the log about what is skipped in one partition; the rest is counted."""

KEY_SHOWN_BYTES: Final = 100

LoadTurns: TypeAlias = asyncio.Semaphore
"""Of LOADS_AT_ONCE_MAX."""

_SPECIAL: Final = COMPRESSION_MASK | CONTROL | TRANSACTIONAL


class Superseded(Exception):
    """The partition is led by another broker, or in another epoch, by now."""


class Loaded(NamedTuple):
    """What a replay came to."""

    end: int
    """The offset before which all is applied."""
    records: int
    size_bytes: int
    began_ms: int
    took_ms: int
    waited_ms: int
    """For its turn, at the beginning of that time."""


async def load(
    replica: Replica,
    machine: Machine,
    *,
    bytes_max: int,
    goes_on: Callable[[], bool],
    clock: Clock,
    tasks: Tasks,
    jobs: Jobs,
    turns: LoadTurns,
    replayed: Callable[[], object],
) -> Loaded:
    """Replay all that is in the log, reading `bytes_max` at a time; `replayed` is called after
    each slice. When this returns nothing is missing, before the loop gets another turn. Superseded
    when it `goes_on` no longer; OSError, StorageError when the log can't be read."""
    began_ms = clock.now_ms()
    async with turns:
        waited_ms = clock.now_ms() - began_ms
        replay = _Replay(replica, machine, bytes_max, goes_on, replayed, clock)
        end = None
        while end is None:
            try:
                end = await go_on_with_jobs(tasks, jobs, replay.steps(), None)
            except OSError as failure:
                if not is_shortage(failure):
                    raise
                logger.error("%s-%d can't be replayed now: %s", *replica.key, failure)
                await tasks.sleep(SHORTAGE_RETRY_S)
    took_ms = clock.now_ms() - began_ms
    return Loaded(end, replay.records, replay.size_bytes, began_ms, took_ms, waited_ms)


class _Replay:
    """One replay."""

    def __init__(
        self,
        replica: Replica,
        machine: Machine,
        bytes_max: int,
        goes_on: Callable[[], bool],
        replayed: Callable[[], object],
        clock: Clock,
    ) -> None:
        self.records = 0
        self.size_bytes = 0
        self._replica = replica
        self._machine = machine
        self._bytes_max = bytes_max
        self._goes_on = goes_on
        self._replayed = replayed
        self._offset = replica.log.start_offset
        self._now_s = clock.monotonic_s
        self._slice_ends_s = 0.0
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._skipped = 0

    def steps(self) -> Steps[int]:
        """All of it, or what is left; the end of the log that is reached."""
        log = self._replica.log
        while True:
            if not self._goes_on():
                raise Superseded
            offset = max(self._offset, log.start_offset)
            if offset >= log.end_offset:
                break
            found = log.read(offset, self._bytes_max, upto=log.end_offset, at_least_one=True)
            if found is None:  # nothing is left of what was there
                break
            data: bytes = yield found.file.pread, found.length, found.position
            self._begin_slice()
            self._offset = yield from self._apply_batches(data)
            if self._offset <= offset:
                raise StorageError(f"{self._name} has no batch with offset {offset}")
        self._hand_over()
        self._replayed()
        if self._skipped > SKIPPED_LINES_MAX:
            more = self._skipped - SKIPPED_LINES_MAX
            logger.error("%s: skipped %d more", self._name, more)
        return log.end_offset

    @property
    def _name(self) -> str:
        return "{}-{}".format(*self._replica.key)

    def _begin_slice(self) -> None:
        self._slice_ends_s = self._now_s() + SLICE_S

    def _pause(self) -> Steps[None]:
        """Hand over what is there, and let others have a turn if it is time."""
        self._hand_over()
        if self._now_s() >= self._slice_ends_s:
            self._replayed()
            yield None
            self._begin_slice()

    def _apply_batches(self, data: bytes) -> Steps[int]:
        """Apply the batches in `data`, the last of which may be cut; the offset to go on from.

        Written out, as there may be a million of a record each."""
        keys, values, view = self._keys, self._values, memoryview(data)
        position, held, offset, unpack = 0, len(data), -1, HEADER.unpack_from
        handed_over = 0
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
                        self._skip(base, _odd(keyless))
            offset = base + delta + 1
            position = end
            if len(keys) >= CHUNK_RECORDS or position - handed_over >= CHUNK_BYTES:
                handed_over = position
                yield from self._pause()
        self.size_bytes += position
        return offset

    def _skip(self, base_offset: int, why: object) -> None:
        """Say that a batch, or a part of it, is not replayed."""
        self._skipped += 1
        if self._skipped <= SKIPPED_LINES_MAX:
            where = f"the batch at offset {base_offset}"
            logger.error("%s: skipped %s, or a part of it: %s", self._name, where, why)

    def _apply_special(self, batch: bytes) -> Steps[None]:
        """Apply a batch that is big, compressed, or of a transaction."""
        header = read_header(batch)
        if header.attributes & CONTROL:
            self._hand_over()
            yield from self._apply_marker(header, batch)
            return
        try:
            inner = memoryview(batch)[HEADER_BYTES:]
            payload = bytes((yield from inflate(header.compression, inner)))
        except ApiError as failure:
            self._skip(header.base_offset, failure)
            return
        producer = None
        if header.attributes & TRANSACTIONAL:
            self._hand_over()
            producer = Producer(header.producer_id, header.producer_epoch)
        keys, values = self._keys, self._values
        position, left, odd = 0, header.record_count, 0
        while left > 0:
            of_a_chunk = left * CHUNK_BYTES // max(len(payload) - position, CHUNK_BYTES)
            count, kept = max(1, min(of_a_chunk, CHUNK_RECORDS)), len(keys)
            try:
                position, keyless = add_pairs(payload, position, count, keys, values)
            except BROKEN as failure:
                del keys[kept:], values[kept:]
                self._skip(header.base_offset, failure)
                break
            odd += keyless
            left -= count
            if producer is not None:
                self._apply_each(producer)
            yield from self._pause()
        if odd or (not left and position != len(payload)):
            self._skip(header.base_offset, _odd(odd))

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

    def _hand_over(self) -> None:
        """Have the machine apply what is at hand."""
        keys, values = self._keys, self._values
        if keys:
            self.records += len(keys)
            try:
                self._machine.replay(keys, values)
            except Exception:  # one record, perhaps: nothing is lost by doing the others again
                self._apply_each(None)
            keys.clear()
            values.clear()

    def _apply_each(self, producer: Producer | None) -> None:
        """The same one by one, in a transaction if `producer` is given."""
        if producer is not None:
            self.records += len(self._keys)
        for key, value in zip(self._keys, self._values, strict=True):
            try:
                self._machine.apply(Record(key, value), producer)
            except Exception:
                self._skipped += 1
                if self._skipped <= SKIPPED_LINES_MAX:
                    what = f"the record with the key {key[:KEY_SHOWN_BYTES]!r}"
                    logger.exception("%s: skipped %s", self._name, what)
        self._keys.clear()
        self._values.clear()


def _odd(keyless: int) -> str:
    return f"{keyless} records without a key" if keyless else "it is longer than its records"
