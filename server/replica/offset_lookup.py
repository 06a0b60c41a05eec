"""Offsets for ListOffsets: by the special times below zero, or by time (KIP-79)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from kavka.log.reader import FileRange
from kavka.log.times import SearchPaused
from kavka.seams import Pool, Tasks
from kavka.server.replica.batch_opening import RECORDS_PER_STEP, BatchOpener
from kavka.server.replica.replica import Replica
from kavka.server.runtime import cooperative
from kavka.wire import record_batches
from kavka.wire.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import decompress_in_steps

HEADERS_AT_ONCE_MAX: Final = 1000
"""Headers of batches read in a search by time before others are served: at most 2 ms."""

_ANY_MS: Final = 2**63 - 1


class FoundOffset(NamedTuple):
    """A result of ListOffsets. Timestamp in ms; -1 where there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOT_FOUND: Final = FoundOffset()


def find(
    replica: Replica,
    timestamp: int,
    *,
    committed_only: bool,
    opener: BatchOpener,
    by_replica: bool = False,
) -> FoundOffset | Coroutine[Any, Any, FoundOffset]:
    """The offset for `timestamp` (ms, or one of the special values). Awaitable if records must be
    opened.

    ApiError OFFSET_NOT_AVAILABLE while a new leader may not know it yet (KIP-207).
    """
    if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        return find_end(replica, timestamp, committed_only, by_replica=by_replica)
    fetchable = replica.last_stable_offset if committed_only else replica.high_watermark
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND  # nothing is tiered, and nothing waits to be
    if replica.partition.is_catching_up:
        return _unless_behind(replica, timestamp, fetchable, opener)
    return _find_in_records(replica, timestamp, fetchable, opener)


def find_end(
    replica: Replica, timestamp: int, committed_only: bool, *, by_replica: bool = False
) -> FoundOffset:
    """The offset where the partition ends (LATEST) or begins (EARLIEST, EARLIEST_LOCAL). For a
    follower (`by_replica`) it ends at the log end.

    ApiError OFFSET_NOT_AVAILABLE while a new leader may not know its end yet (KIP-207).
    """
    if timestamp == LATEST and by_replica:
        return FoundOffset(-1, replica.log.end_offset, replica.partition.leader_epoch)
    if timestamp == LATEST:
        if replica.partition.is_catching_up:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        fetchable = replica.last_stable_offset if committed_only else replica.high_watermark
        return FoundOffset(-1, fetchable, replica.partition.leader_epoch)
    log = replica.log
    return FoundOffset(-1, log.start_offset, log.epoch_of(log.start_offset))


async def _unless_behind(
    replica: Replica, timestamp: int, fetchable: int, opener: BatchOpener
) -> FoundOffset:
    found = _find_in_records(replica, timestamp, fetchable, opener)
    if not isinstance(found, FoundOffset):
        found = await found
    if found == NOT_FOUND:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found


def _find_in_records(
    replica: Replica, timestamp: int, fetchable: int, opener: BatchOpener
) -> FoundOffset | Coroutine[Any, Any, FoundOffset]:
    log = replica.log
    if timestamp == MAX_TIMESTAMP:
        newest = log.batch_of_max_timestamp()
        return NOT_FOUND if newest is None else _find_newest(replica, newest, fetchable, opener)
    try:
        first = log.batch_for_timestamp(timestamp, headers_max=HEADERS_AT_ONCE_MAX)
    except SearchPaused as paused:
        return _search_on(replica, paused.offset, timestamp, fetchable, opener)
    return (
        NOT_FOUND if first is None else _find_by_time(replica, first, timestamp, fetchable, opener)
    )


async def _search_on(
    replica: Replica, start: int, timestamp: int, fetchable: int, opener: BatchOpener
) -> FoundOffset:
    await opener.tasks.sleep(0)
    batch = await _batch_since(replica, start, timestamp, opener.tasks)
    if batch is None:
        return NOT_FOUND
    return await _find_by_time(replica, batch, timestamp, fetchable, opener)


async def _batch_since(
    replica: Replica, start: int, timestamp: int, tasks: Tasks
) -> FileRange | None:
    """`PartitionLog.batch_for_timestamp` in slices."""
    while True:
        if not replica.partition.is_leader:  # its log may be deleted
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            return replica.log.batch_for_timestamp(timestamp, start, HEADERS_AT_ONCE_MAX)
        except SearchPaused as paused:
            start = paused.offset
        await tasks.sleep(0)


def find_old(replica: Replica, timestamp: int, limit: int, *, by_replica: bool) -> list[int]:
    """Up to `limit` offsets in descending order, as version 0 returns them: the log end offset, if
    `timestamp` (ms, or special) is not in the past, and the base offsets of the segments that were
    last written at `timestamp` or before. For a consumer the high watermark replaces offsets above
    it."""
    log = replica.log
    if limit < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{limit} offsets are asked for")
    if timestamp == EARLIEST:
        found = [log.start_offset][:limit]
    else:
        time_ms = _ANY_MS if timestamp == LATEST else timestamp
        found = log.offsets_before(time_ms, replica.clock.now_ms(), limit)
    high_watermark = replica.high_watermark
    if by_replica or not found or found[0] <= high_watermark:
        return found
    return [high_watermark, *(offset for offset in found if offset <= high_watermark)]


async def _find_newest(
    replica: Replica, batch: FileRange, fetchable: int, opener: BatchOpener
) -> FoundOffset:
    async with opener.slots:
        opened = await _open(batch, opener)
        timestamp = opened.header.max_timestamp
        # as in Apache Kafka, even below the log start offset, in a segment that is still there
        return await _search(opened, timestamp, 0, fetchable, opener.tasks) or NOT_FOUND


async def _find_by_time(
    replica: Replica, first: FileRange, timestamp: int, fetchable: int, opener: BatchOpener
) -> FoundOffset:
    """Search from a batch on. Its greatest timestamp may belong to a record below the log start
    offset (DeleteRecords): then the search goes on after it."""
    batch: FileRange | None = first
    while batch is not None:
        async with opener.slots:
            opened = await _open(batch, opener)
            start = replica.log.start_offset
            found = await _search(opened, timestamp, start, fetchable, opener.tasks)
        if found is not None:
            return found
        batch = await _batch_since(replica, opened.header.last_offset + 1, timestamp, opener.tasks)
    return NOT_FOUND


class _Opened(NamedTuple):
    """A batch with its records inflated."""

    header: record_batches.BatchHeader
    payload: Any


async def _open(batch: FileRange, opener: BatchOpener) -> _Opened:
    view = memoryview(bytearray(batch.length))
    if batch.file.read_cached(view, batch.position) != batch.length:
        await opener.jobs.run(Pool.READ, batch.file.read_into, view, batch.position)
    header = record_batches.read_header(view)
    inner = view[record_batches.HEADER_BYTES : header.size]
    steps = decompress_in_steps(header.compression, inner)
    return _Opened(header, await cooperative.run_rest(opener.tasks, steps, jobs=opener.jobs))


async def _search(
    opened: _Opened, timestamp: int, start: int, fetchable: int, tasks: Tasks
) -> FoundOffset | None:
    """The first record from offset `start` on whose timestamp is not before `timestamp`; NOT_FOUND
    if it is not fetchable yet, None if there is none in the batch."""
    search = record_batches.FirstAtOrAfter(*opened, timestamp, start)
    while not search.step(RECORDS_PER_STEP):
        await tasks.sleep(0)
    if search.found is None:
        return None
    offset, found_timestamp = search.found
    if offset >= fetchable:
        return NOT_FOUND
    return FoundOffset(found_timestamp, offset, opened.header.leader_epoch)
