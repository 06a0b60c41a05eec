"""Rebuilds the producer state at an offset: a snapshot plus the headers and markers since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

from kavka.log.errors import (
    DAMAGE_ADVICE,
    CorruptFileError,
    CorruptLogError,
    StorageError,
)
from kavka.log.fs import Buffer, File
from kavka.log.producer_state import ProducerStates
from kavka.log.recent_batches import BATCHES_PER_STEP, restore_recent_batches
from kavka.log.scan import headers
from kavka.log.segment import Segment
from kavka.log.segments import SegmentList
from kavka.log.snapshots import Snapshots
from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import MARKER_BYTES_MAX, Marker, read_marker
from kavka.wire.errors import ApiError
from kavka.wire.record_batches import CONTROL, BatchHeader, malformed
from kavka.wire.steps import Steps, run_at_once

UNLIMITED: Final = 1 << 63
"""Behind all offsets."""

NoteAborted: TypeAlias = Callable[[AbortedTxn], object]
"""Called with the transaction index entry of an aborted transaction."""

logger = logging.getLogger(__name__)


def replay_in_steps(
    segments: Iterable[Segment],
    snapshots: Snapshots,
    producers: ProducerStates,
    start: int,
    end: int,
    *,
    with_recent: bool = False,
    skip_damage: bool = False,
) -> Steps[None]:
    """Set `producers` to the state just before `end`, for a log that starts at `start`; with those
    batches that a snapshot leaves out, if `with_recent` (see `kavka.log.recent_batches`).

    CorruptLogError if a needed segment is damaged. With `skip_damage`, for segments that end with
    `end`, what can't be read of it is left out, and logged; StorageError if the log has
    transactions: which of them are open or aborted can't be known then, and records of aborted ones
    would be served.
    """
    saved = yield from snapshots.load(end, producers)
    begin = start if saved < 0 else saved  # also those below the start offset
    segment_list = SegmentList(segments)
    if with_recent and saved > start and len(producers):
        yield from restore_recent_batches(list(segment_list), producers, saved)
    if begin >= end:
        return
    damage: CorruptLogError | None = None
    last = end if skip_damage else UNLIMITED
    needed = list(segment_list.since(begin)) if len(segment_list) else []
    for segment, following in zip_longest(needed, needed[1:]):
        if segment.base_offset >= end:
            break
        beyond = last if following is None else following.base_offset
        if skip_damage:
            damage = (
                yield from _replay_around_damage(segment, producers, begin, end, beyond)
            ) or damage
        else:
            yield from _replay_segment(segment, producers, begin, end, beyond)
    if damage is not None and (yield from _has_transactions(producers)):
        raise StorageError(
            f"{damage.message}; its partition has transactions, and which are aborted can't be "
            f"known without it: {DAMAGE_ADVICE}"
        )


def _replay_around_damage(
    segment: Segment, producers: ProducerStates, begin: int, end: int, beyond: int
) -> Steps[CorruptLogError | None]:
    """Replay what can be reached through the index too; the last damage, if there is any."""
    found = None
    while True:
        try:
            yield from _replay_segment(segment, producers, begin, end, beyond)
        except CorruptLogError as damage:
            logger.error("%s; what its producers wrote there is not known", damage.message)
            found = damage
        else:
            return found
        resumed = segment.indexed_after(found.position + 1)
        if resumed <= begin:  # -1: nothing behind the damage can be reached
            return found
        begin = resumed


def _leave_out(_: AbortedTxn) -> None:
    """The segment has a transaction index already."""


def _has_transactions(producers: ProducerStates) -> Steps[bool]:
    """Whether a transaction is open, or a marker was seen."""
    for part in producers.parts():
        if any(entry.txn_first_offset >= 0 or entry.coordinator_epoch >= 0 for entry in part):
            return True
        yield None
    return False


def _replay_segment(
    segment: Segment, producers: ProducerStates, begin: int, end: int, beyond: int
) -> Steps[None]:
    """Update `producers` with the batches from offset `begin` on, up to `end`. CorruptLogError if
    their offsets don't rise, or reach `beyond`, the base offset of the next segment."""
    next_offset = segment.base_offset
    first = segment.find(begin)
    if first is None:
        return
    found = headers(segment.file, segment.path, first.position, segment.size)
    for number, (position, header) in enumerate(found, 1):
        if not next_offset <= header.base_offset <= header.last_offset < beyond:
            raise CorruptLogError(
                segment.path,
                position,
                f"its offsets {header.base_offset} to {header.last_offset} are not between "
                f"{next_offset} and {beyond - 1}",
            )
        next_offset = header.last_offset + 1
        if header.last_offset >= end:
            break
        if header.producer_id >= 0:
            replay_batch(producers, segment.file, segment.path, position, header, _leave_out)
        if number % BATCHES_PER_STEP == 0:
            yield None


def txn_index_damage(segment: Segment, end: int) -> str | None:
    """Why the transaction index of a segment that ends at `end` is invalid; None if it is valid.

    Missing entries at its end can't be detected.
    """
    txns = segment.txns
    if not txns.has_file:
        return None
    try:
        why = txns.damage(segment.base_offset, end)
        if why is not None or not txns.count:
            return why
        last = txns.last()
        extent = segment.find(last.last_offset)
    except (CorruptFileError, CorruptLogError) as error:
        return str(error)
    if extent is not None and extent.base_offset == last.last_offset:
        _, header = next(headers(segment.file, segment.path, extent.position, segment.size))
        if header.is_control and header.producer_id == last.producer_id:
            return None
    return f"there is no marker of producer {last.producer_id} at offset {last.last_offset}"


def rebuild_txn_index(
    segments: Sequence[Segment], slot: int, snapshots: Snapshots, start: int
) -> None:
    """Rebuild the transaction index of a segment from the batches, with fsync, for a log that
    starts at `start`. CorruptLogError if the segment is damaged."""
    segment = segments[slot]
    producers = ProducerStates()
    run_at_once(replay_in_steps(segments[:slot], snapshots, producers, start, segment.base_offset))
    found: list[AbortedTxn] = []
    for position, header in headers(segment.file, segment.path, 0, segment.size):
        if header.producer_id >= 0:
            replay_batch(producers, segment.file, segment.path, position, header, found.append)
    segment.txns.replace(found)


def replay_batch(
    producers: ProducerStates,
    file: File,
    path: str,
    position: int,
    header: BatchHeader,
    note_aborted: NoteAborted,
) -> None:
    """`apply_batch` for the batch at `position` of a file. CorruptLogError for an invalid
    marker."""
    marker = None
    if header.attributes & CONTROL:
        try:
            marker = marker_in(header, lambda: file.pread(header.size, position))
        except ApiError as error:
            raise CorruptLogError(path, position, str(error)) from error
    apply_batch(producers, header, marker, note_aborted)


def marker_in(header: BatchHeader, read: Callable[[], Buffer]) -> Marker | None:
    """The marker in a control batch, whose bytes `read` returns; None if it has none. ApiError if
    it is invalid."""
    if header.size > MARKER_BYTES_MAX:
        raise malformed(f"a control batch of {header.size} bytes")
    return read_marker(header, read())


def apply_batch(
    producers: ProducerStates,
    header: BatchHeader,
    marker: Marker | None,
    note_aborted: NoteAborted,
) -> None:
    """Update the producer state with a batch of the log that has a producer.

    `note_aborted` is called for the marker of an aborted transaction, with its transaction index
    entry, before anything has changed: so it may fail.
    """
    if not header.attributes & CONTROL:
        producers.update(header, header.last_offset)
    elif marker is not None:
        aborted = producers.aborted_by(header.producer_id, marker, header.base_offset)
        if aborted is not None:
            note_aborted(aborted)
        producers.end(header, marker, header.base_offset)
