"""What is said between a broker and the process that compacts a log for it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.log.producer_entry import ProducerEntry
from kavka.log.settings import LogSettings


class LastRecord(NamedTuple):
    """What is kept for a producer: the batch that ends at this offset; when it is -1, a marker
    with its epoch."""

    offset: int
    epoch: int


class LastRecords(NamedTuple):
    """The last records of all producers, in so few objects that very many are sent at once."""

    producer_ids: array[int]
    offsets: array[int]
    epochs: array[int]

    @classmethod
    def none(cls) -> LastRecords:
        """None yet; see `add`."""
        return cls(array("q"), array("q"), array("h"))

    def add(self, entries: Sequence[ProducerEntry]) -> None:
        """Add those of more producers, as they are now."""
        self.producer_ids.extend([entry.producer_id for entry in entries])
        self.offsets.extend(
            [entry.batches[-1].last_offset if entry.batches else -1 for entry in entries]
        )
        self.epochs.extend([entry.epoch for entry in entries])

    def by_producer(self) -> dict[int, LastRecord]:
        """To be looked up; this takes long."""
        kept = map(LastRecord, self.offsets, self.epochs)
        return dict(zip(self.producer_ids, kept, strict=True))


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """What one run may use."""

    map_bytes: int
    load_factor: float
    read_bytes: int
    """Read at a time, if batches are no larger."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class CompactionOrder:
    """What to compact: segments that are closed and below what is decided for good."""

    directory: str
    segments: tuple[tuple[int, int], ...]
    """Base offset and size in bytes, from the first of the log on."""

    later_bases: tuple[int, ...]
    """Of the segments behind them, whose transaction indexes are looked at too."""

    first_dirty: int
    end_offset: int
    """Where the first segment begins that stays as it is."""

    producers: LastRecords
    settings: LogSettings
    limits: CompactionLimits
    now_ms: int


class Progress(NamedTuple):
    """Told about every second. `bytes_done` of `bytes_in_all`, which grows once: what is to be
    filtered is known when the map is made."""

    stage: str
    bytes_done: int
    bytes_in_all: int


class Replacement(NamedTuple):
    """Told when segments are written anew and on the disk, under the names of `cleaned`."""

    old: tuple[int, ...]
    """Base offsets of neighbours."""

    new: tuple[tuple[int, int], ...]
    """Base offset and size in bytes of each that takes their place."""


@dataclass(slots=True)
class CompactionResult:
    """What came of it. Times in seconds, sizes in bytes."""

    end_offset: int
    """Up to here the log is clean."""

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
