"""Restores the batches that a snapshot of the producer state leaves out.

To recognise a duplicate of any batch that a client may have in flight, a broker has to remember
five batches of a producer; a snapshot, whose format is Apache Kafka's, has only the newest. A
producer that sends all five again after a restart, since their responses were lost, would get
OUT_OF_ORDER_SEQUENCE_NUMBER for the first one: stock clients then continue with a new epoch and
write the batches a second time. So the other four are read from the log, backwards from the
snapshot's offset and within limits: in a log that was written shortly before, as the clients of
others have given up, and for the producers whose newest batch is within these limits. The batches'
timestamps say nothing about that: they come from the clients' clocks, or are those of the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.log.errors import CorruptLogError
from kavka.log.producer_entry import (
    BATCHES_KEPT,
    SEQUENCE_MASK,
    AppendedBatch,
    ProducerEntry,
)
from kavka.log.producer_state import ProducerStates
from kavka.log.scan import headers
from kavka.log.segment import Segment
from kavka.wire.record_batches import CONTROL, BatchHeader
from kavka.wire.steps import Steps

WRITTEN_WITHIN_MS: Final = 15 * 60_000
"""A log is read only if its last segment was written so recently: clients give a batch up after
`delivery.timeout.ms`, two minutes by default."""

WINDOW_BYTES: Final = 16 * 1024
BYTES_MAX: Final = 4 << 20
BATCHES_MAX: Final = 2000
"""Limits of what is read of one log: at 3 us a batch, 6 ms. It is read in windows that begin at an
indexed batch, so the last one may go beyond, by the index interval."""

BATCHES_PER_STEP: Final = 64
"""Batches whose headers are read in one step, at 3 us each, and for big ones a read of 64 KiB."""


def restore_recent_batches(
    segments: Sequence[Segment], producers: ProducerStates, end: int
) -> Steps[None]:
    """Add the batches before the newest to `producers`, which were read from a snapshot at `end`.

    `segments` are those of the log, the one with `end` or the end of the log included. Damage ends
    the search: a read of the records reports it.
    """
    before = [segment for segment in segments if segment.base_offset < end and segment.size]
    if not before:
        return
    try:
        found = before[-1].find(end)
        upper = before[-1].size if found is None else found.position
        since = _offset_before(before, upper, BYTES_MAX)
        search = _Search((yield from _lacking_batches(producers, since)))
        for segment in reversed(before):
            if not search.is_active:
                return
            yield from search.read(segment, upper if segment is before[-1] else segment.size)
    except CorruptLogError:
        return


def _offset_before(segments: Sequence[Segment], last: int, size: int) -> int:
    """The offset of an indexed batch at least `size` bytes before position `last` of the last
    segment; 0 if the log is smaller."""
    for segment in reversed(segments):
        upper = last if segment is segments[-1] else segment.size
        if upper > size:
            indexed = segment.indexed_before(upper - size)
            return segment.base_offset if indexed is None else indexed.base_offset
        size -= upper
    return 0


def _lacking_batches(producers: ProducerStates, since: int) -> Steps[dict[int, ProducerEntry]]:
    """The producers that lack batches and whose newest batch ends at offset `since` or later."""
    found = {}
    for part in producers.parts():
        for entry in part:
            if _lacks_batches(entry) and entry.batches[-1].last_offset >= since:
                found[entry.producer_id] = entry
        yield None
    return found


class _Search:
    """A search for the missing batches of producers, within limits on what is read."""

    def __init__(self, lacking: dict[int, ProducerEntry]) -> None:
        self._lacking = lacking
        self._bytes = BYTES_MAX
        self._batches = BATCHES_MAX

    @property
    def is_active(self) -> bool:
        """Whether batches are missing, and more may be read."""
        return bool(self._lacking) and self._bytes > 0 and self._batches > 0

    def read(self, segment: Segment, upper: int) -> Steps[None]:
        """Read a segment backwards from position `upper`, in windows."""
        while upper > 0 and self.is_active:
            indexed = segment.indexed_before(max(0, upper - WINDOW_BYTES))
            lower = 0 if indexed is None else indexed.position
            if upper - lower > BYTES_MAX:
                self._bytes = 0
                return
            yield from self._take(segment, lower, upper)
            upper = lower
            yield None

    def _take(self, segment: Segment, lower: int, upper: int) -> Steps[None]:
        """Take what is wanted between two positions: of as many batches as may be read, the newest
        ones, as a producer's batches are taken from the newest on."""
        self._bytes -= upper - lower
        count = 0
        batches = []
        for _, header in headers(segment.file, segment.path, lower, upper):
            count += 1
            if header.producer_id in self._lacking and not header.attributes & CONTROL:
                batches.append((count, header))
            if count % BATCHES_PER_STEP == 0:
                yield None
        left_out = count - self._batches
        self._batches -= count
        for number, header in reversed(batches):
            if number <= left_out:
                return
            entry = self._lacking.get(header.producer_id)
            if entry is not None:
                _prepend(entry, header)
                if not _lacks_batches(entry):
                    del self._lacking[header.producer_id]


def _lacks_batches(entry: ProducerEntry) -> bool:
    """Whether older batches of its epoch may be in the log: sequence numbers begin with 0."""
    return 0 < len(entry.batches) < BATCHES_KEPT and entry.batches[0].first_sequence > 0


def _prepend(entry: ProducerEntry, header: BatchHeader) -> None:
    """Add a batch before the oldest, if it is the one that was appended before that."""
    oldest = entry.batches[0]
    follows = (header.last_sequence + 1) & SEQUENCE_MASK == oldest.first_sequence
    if follows and header.producer_epoch == entry.epoch and header.last_offset < oldest.base_offset:
        batch = AppendedBatch(
            header.base_sequence,
            header.last_sequence,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
        )
        entry.batches = (batch, *entry.batches)
