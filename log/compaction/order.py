"""The messages between the broker and the process that compacts a log."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kavka.log.producer_entry import NO_EPOCH, ProducerEntry
from kavka.log.settings import LogSettings
from kavka.wire.record_batches import BatchHeader


class LastRecord(NamedTuple):
    """The last batch of a producer, which is kept: it ends at this offset; if that is -1, it is a
    marker with this epoch."""

    offset: int
    epoch: int

    def may_be(self, header: BatchHeader) -> bool:
        """Whether it is a batch of this producer; with `UNKNOWN` it may be."""
        if self.offset >= 0:
            return header.last_offset == self.offset
        if self is UNKNOWN:
            return not header.is_control
        return header.is_control and header.producer_epoch == self.epoch


UNKNOWN: Final = LastRecord(-2, NO_EPOCH)
"""It may be any batch with records."""


class LastRecords(NamedTuple):
    """The last records of all producers, in arrays, which are pickled fast."""

    producer_ids: array[int]
    offsets: array[int]
    epochs: array[int]

    @classmethod
    def none(cls) -> LastRecords:
        """An empty collection; see `add`."""
        return cls(array("q"), array("q"), array("h"))

    def add(self, entries: Sequence[ProducerEntry]) -> None:
        """Add the current last records of these producers."""
        self.producer_ids.extend([entry.producer_id for entry in entries])
        self.offsets.extend(
            [entry.batches[-1].last_offset if entry.batches else -1 for entry in entries]
        )
        self.epochs.extend([entry.epoch for entry in entries])

    def by_producer(self) -> dict[int, LastRecord]:
        """As a dictionary by producer id; this takes long."""
        kept = map(LastRecord, self.offsets, self.epochs)
        return dict(zip(self.producer_ids, kept, strict=True))


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """The resource limits of one compaction."""

    map_bytes: int
    load_factor: float
    read_bytes: int
    """Bytes read at a time, unless batches are larger."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class CompactionOrder:
    """What to compact: closed segments below the last stable offset."""

    directory: str
    segments: tuple[tuple[int, int], ...]
    """Base offset and size in bytes of the segments to clean, from the start of the log on."""

    later_bases: tuple[int, ...]
    """Base offsets of later segments, whose transaction indexes are read too."""

    first_dirty: int
    end_offset: int
    """The base offset of the first segment that is not cleaned."""

    producers: LastRecords
    settings: LogSettings
    limits: CompactionLimits
    now_ms: int


class Progress(NamedTuple):
    """Sent about every second. `bytes_in_all` grows once: when the map is complete the bytes to
    be filtered are added."""

    stage: str
    bytes_done: int
    bytes_in_all: int


class Replacement(NamedTuple):
    """Sent when a group of segments was rewritten and flushed, as `.cleaned` files."""

    old: tuple[int, ...]
    """Base offsets of the adjacent old segments."""

    new: tuple[tuple[int, int], ...]
    """Base offset and size in bytes of each new segment."""


@dataclass(slots=True)
class CompactionResult:
    """The result of a compaction. Times in seconds, sizes in bytes."""

    end_offset: int
    """Below this offset the log is clean."""

    index_s: float = 0.0
    total_s: float = 0.0
    waited_s: float = 0.0
    bytes_indexed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_keyless: int = 0
    batches_broken: list[str] = field(default_factory=list)
    map_utilization: float = 0.0
