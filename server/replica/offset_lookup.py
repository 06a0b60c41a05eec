"""Offsets for ListOffsets: by the special times below zero, or by time (KIP-79)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from kavka.log.partition_log import Slice
from kavka.seams import Pool, Tasks
from kavka.server.replica.batch_opening import RECORDS_PER_TURN, BatchOpener
from kavka.server.replica.replica import Replica
from kavka.server.runtime import cooperative
from kavka.wire import records
from kavka.wire.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import inflate

_ANY_MS: Final = 2**63 - 1


class Found(NamedTuple):
    """Timestamp in ms; -1 where there is none."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING: Final = Found()


def find(
    replica: Replica, timestamp: int, *, committed_only: bool, opener: BatchOpener
) -> Found | Coroutine[Any, Any, Found]:
    """The offset for `timestamp` (ms, or special). Awaitable when records must be opened.

    ApiError OFFSET_NOT_AVAILABLE where the new leader may not know yet (KIP-207).
    """
    log = replica.log
    fetchable = replica.last_stable_offset if committed_only else replica.high_watermark
    if timestamp == LATEST:
        if replica.partition.is_catching_up:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return Found(-1, fetchable, replica.partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(-1, log.start_offset, log.epoch_of(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING  # nothing is tiered, and nothing waits to be
    if replica.partition.is_catching_up:
        return _unless_behind(replica, timestamp, fetchable, opener)
    return _find_in_records(replica, timestamp, fetchable, opener)


async def _unless_behind(
    replica: Replica, timestamp: int, fetchable: int, opener: BatchOpener
) -> Found:
    found = _find_in_records(replica, timestamp, fetchable, opener)
    if not isinstance(found, Found):
        found = await found
    if found == NOTHING:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return found


def _find_in_records(
    replica: Replica, timestamp: int, fetchable: int, opener: BatchOpener
) -> Found | Coroutine[Any, Any, Found]:
    log = replica.log
    if timestamp == MAX_TIMESTAMP:
        newest = log.batch_of_max_timestamp()
        return NOTHING if newest is None else _find_newest(replica, newest, fetchable, opener)
    first = log.batch_for_timestamp(timestamp)
    return NOTHING if first is None else _find_by_time(replica, first, timestamp, fetchable, opener)


def find_old(replica: Replica, timestamp: int, limit: int, *, by_replica: bool) -> list[int]:
    """Up to `limit` offsets in falling order, for clients that know no timestamps: the log's end,
    if that counts as `timestamp` (ms, or special), and where segments begin that were last written
    before. A consumer is told the high watermark in the place of what lies above it."""
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
    replica: Replica, batch: Slice, fetchable: int, opener: BatchOpener
) -> Found:
    async with opener.room:
        opened = await _open(batch, opener)
        timestamp = opened.header.max_timestamp
        # as in Apache Kafka, be it before the log's start, in a segment that is still there
        return await _search(opened, timestamp, 0, fetchable, opener.tasks) or NOTHING


async def _find_by_time(
    replica: Replica, first: Slice, timestamp: int, fetchable: int, opener: BatchOpener
) -> Found:
    """A batch's greatest timestamp may belong to a record that DeleteRecords took away: then the
    search goes on behind it."""
    batch: Slice | None = first
    while batch is not None:
        async with opener.room:
            opened = await _open(batch, opener)
            start = replica.log.start_offset
            found = await _search(opened, timestamp, start, fetchable, opener.tasks)
        if found is not None:
            return found
        if not replica.partition.is_leader:  # and its log may be deleted
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        batch = replica.log.batch_for_timestamp(timestamp, opened.header.last_offset + 1)
    return NOTHING


class _Opened(NamedTuple):
    """A batch with its records inflated."""

    header: records.BatchHeader
    payload: Any


async def _open(batch: Slice, opener: BatchOpener) -> _Opened:
    view = memoryview(bytearray(batch.length))
    if batch.file.read_cached(view, batch.position) != batch.length:
        await opener.jobs.run(Pool.READ, batch.file.read_into, view, batch.position)
    header = records.read_header(view)
    inner = view[records.HEADER_BYTES : header.size]
    steps = inflate(header.compression, inner)
    return _Opened(header, await cooperative.run_steps(opener.tasks, opener.jobs, steps))


async def _search(
    opened: _Opened, timestamp: int, start: int, fetchable: int, tasks: Tasks
) -> Found | None:
    """The first record from `start` on that is not older; nothing, if it is not fetchable yet."""
    search = records.FirstAtOrAfter(*opened, timestamp, start)
    while not search.step(RECORDS_PER_TURN):
        await tasks.sleep(0)
    if search.found is None:
        return None
    offset, found_timestamp = search.found
    if offset >= fetchable:
        return NOTHING
    return Found(found_timestamp, offset, opened.header.leader_epoch)
