"""Appending to a follower's log what it has fetched from its leader.

The batches are written as they are: their offsets, leader epochs and records are the leader's. As
in Apache Kafka's `UnifiedLog.appendAsFollower` all of them are checked before anything is written,
and neither sequences nor sizes are: the leader has accepted them. When to roll the follower decides
by its own settings.

Unlike there the batches of one response may go to several segments: else a response could not be
larger than a segment. All that go to the same one are a single write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.log.partition_log import PartitionLog
from kavka.log.replay import UNLIMITED, marker_in
from kavka.log.scan import header_error
from kavka.log.segment import Segment
from kavka.wire.control_records import Marker
from kavka.wire.crc import crc32c
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import (
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    MESSAGE_BYTES_MAX,
    BatchHeader,
    read_header,
)


class FollowerAppended(NamedTuple):
    """What was appended; without batches the offsets are -1."""

    first_offset: int
    last_offset: int
    size_bytes: int
    record_count: int

    @property
    def is_empty(self) -> bool:
        """Whether there was no batch to append."""
        return not self.size_bytes


NOTHING_APPENDED: Final = FollowerAppended(-1, -1, 0, 0)


class CorruptFetchError(ApiError):
    """A fetched batch is damaged."""

    def __init__(self, log: PartitionLog, position: int, why: str) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"what was fetched of {log.topic}-{log.partition} has no batch at byte {position}: "
            f"{why}",
        )


class UnexpectedOffsetError(Exception):
    """The first fetched batch begins below the end of the log.

    It may contain the end offset of an empty log, whose leader starts within a batch: then the log
    has to be truncated fully, and to start at `first_offset`, before the batch is appended.
    """

    def __init__(self, log: PartitionLog, header: BatchHeader) -> None:
        super().__init__(
            f"fetched offsets {header.base_offset} to {header.last_offset} for "
            f"{log.topic}-{log.partition}, which ends at {log.end_offset}"
        )
        self.first_offset = header.base_offset
        self.last_offset = header.last_offset


class _Fetched(NamedTuple):
    """A batch at `position` of the response, with its marker if it has one."""

    position: int
    header: BatchHeader
    marker: Marker | None


def append_as_follower(
    log: PartitionLog, records: memoryview, *, leader_epoch: int, now_ms: int
) -> FollowerAppended:
    """Append the whole batches in `records`, which were fetched in `leader_epoch`.

    An incomplete batch at the end is ignored. So are the batches from the first one of a later
    epoch on: a broker that has ceased to lead may send what it has fetched itself, and the leader
    of this epoch does not have it (KAFKA-18723). Offsets may be missing, after compaction.

    CorruptFetchError, UnexpectedOffsetError, and ApiError NOT_LEADER_OR_FOLLOWER during a
    truncation: nothing was written, not even valid batches before a damaged one. No checksum covers
    their offsets and epochs, so that bytes that are known to be damaged are not relied on; they
    are fetched again.
    OSError: the batches up to the end offset were appended, and the others may be appended later.
    """
    batches = _check_all(log, records, leader_epoch)
    if not batches:
        return NOTHING_APPENDED
    done = 0
    while done < len(batches):
        segment = log.room_for(batches[done].header, now_ms)
        end = _end_of_run(log, segment, batches, done)
        _append_run(log, segment, records, batches[done:end])
        done = end
    last = batches[-1]
    return FollowerAppended(
        batches[0].header.base_offset,
        last.header.last_offset,
        last.position + last.header.size,
        sum(batch.header.record_count for batch in batches),
    )


def _check_all(log: PartitionLog, records: memoryview, leader_epoch: int) -> list[_Fetched]:
    """The whole batches in `records`, up to `leader_epoch`."""
    found: list[_Fetched] = []
    position, held, following = 0, len(records), log.end_offset
    while held - position >= HEADER_BYTES:
        header = read_header(records, position)
        size, end = header.size, position + header.size
        base, delta = header.base_offset, header.last_offset_delta
        why = header_error(size, header.magic, delta, MESSAGE_BYTES_MAX)
        if why is not None:
            raise CorruptFetchError(log, position, why)
        if end > held or header.leader_epoch > leader_epoch:
            break
        if crc32c(records[position + CRC_START : end]) != header.crc:
            raise CorruptFetchError(log, position, "its checksum would be wrong")
        if base < following and not found:
            raise UnexpectedOffsetError(log, header)
        if base < following or base + delta >= UNLIMITED - 1:
            why = f"its offsets would be {base} to {base + delta}, after {following - 1}"
            raise CorruptFetchError(log, position, why)
        marker = None
        if header.attributes & CONTROL and header.producer_id >= 0:
            marker = _marker(log, position, header, records[position:end])
        found.append(_Fetched(position, header, marker))
        following = base + delta + 1
        position = end
    return found


def _marker(
    log: PartitionLog, position: int, header: BatchHeader, batch: memoryview
) -> Marker | None:
    """The marker in a control batch, if any. An invalid one is refused, since recovery truncates
    there."""
    try:
        return marker_in(header, lambda: batch)
    except ApiError as error:
        raise CorruptFetchError(log, position, str(error)) from error


def _end_of_run(
    log: PartitionLog, segment: Segment, batches: Sequence[_Fetched], begin: int
) -> int:
    """Where the run from `begin` on ends that goes to this segment. It has room for the first."""
    interval = log.settings.index_interval_bytes
    entries_left = segment.entries_left
    size = batches[begin].header.size
    for number in range(begin + 1, len(batches)):
        header = batches[number].header
        # at most so many index entries come from those before: the next one may need other indexes
        entries_max = min(number - begin, size // (interval + 1) + 1)
        if entries_max >= entries_left or not log.has_room(header, segment.size + size):
            return number
        size += header.size
    return len(batches)


def _append_run(
    log: PartitionLog, segment: Segment, records: memoryview, run: Sequence[_Fetched]
) -> None:
    end = run[-1].position + run[-1].header.size
    try:
        segment.write(records[run[0].position : end])
        for batch in run:
            log.append_written(batch.header, batch.marker)
    except OSError:
        log.note_torn_tail()
        raise
