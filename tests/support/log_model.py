"""What a partition's log should hold, as plain lists: the judge of the log under faults.

`History` is what was appended, batch by batch, even if it is no longer there. `Expected` says
of a log that was opened again which records must be there and which may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from support.compaction import Keyed

FORGOTTEN: Final = -2
"""The producer of batches whose producer was forgotten: they were below the log start offset."""

DATA, COMMIT, ABORT = "data", "commit", "abort"


class Batch(NamedTuple):
    """One appended batch. A marker has an offset and no records of its own."""

    first: int
    last: int
    kind: str = DATA
    records: tuple[Keyed, ...] = ()
    producer: int = -1
    sequence: int = -1
    """The last record's."""
    transactional: bool = False
    epoch: int = 0
    """The leader's."""


class Transaction(NamedTuple):
    """One producer's, from its first record to its marker."""

    producer: int
    first: int
    marker: int
    kind: str


@dataclass
class History:
    """All batches up to the log's end, oldest first; none is ever taken out of the middle."""

    batches: list[Batch] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def cut(self, end: int) -> None:
        """Forget what does not end before `end`."""
        while self.batches and self.batches[-1].last >= end:
            self.batches.pop()

    def bounds(self) -> list[int]:
        """Where batches begin, and the end."""
        return [batch.first for batch in self.batches] + [self.end]

    def records(self) -> dict[int, Keyed]:
        """All records by offset."""
        return {record.offset: record for batch in self.batches for record in batch.records}

    def last_of(self, producer: int) -> Batch | None:
        """A producer's last batch with records."""
        of_it = [b for b in self.batches if b.producer == producer and b.kind == DATA]
        return of_it[-1] if of_it else None

    def open_transactions(self) -> dict[int, int]:
        """First offsets of those that have no marker yet, by producer."""
        found: dict[int, int] = {}
        for batch in self.batches:
            if batch.kind != DATA:
                found.pop(batch.producer, None)
            elif batch.transactional:
                found.setdefault(batch.producer, batch.first)
        return found

    def ended_transactions(self) -> list[Transaction]:
        """Those with a marker, by marker."""
        ended: list[Transaction] = []
        begun: dict[int, int] = {}
        for batch in self.batches:
            if batch.kind == DATA and batch.transactional:
                begun.setdefault(batch.producer, batch.first)
            elif batch.kind != DATA and batch.producer in begun:
                first = begun.pop(batch.producer)
                ended.append(Transaction(batch.producer, first, batch.first, batch.kind))
        return ended

    def stable(self, watermark: int, start: int = 0, *, forgotten: bool = True) -> int:
        """Below it every transaction is decided, by a marker below `watermark`; those that began
        before `start` are left out, and without `forgotten` those of forgotten producers."""
        undecided = [t.first for t in self.ended_transactions() if t.marker >= watermark]
        still_open = self.open_transactions()
        if not forgotten:
            still_open.pop(FORGOTTEN, None)
        undecided += still_open.values()
        return min([watermark, *(first for first in undecided if first >= start)])

    def aborted_records(self) -> set[int]:
        """Offsets of the records of transactions that were aborted."""
        aborted = [t for t in self.ended_transactions() if t.kind == ABORT]
        return {
            record.offset
            for batch in self.batches
            for record in batch.records
            if batch.transactional
            and any(
                t.producer == batch.producer and t.first <= batch.first < t.marker for t in aborted
            )
        }


def assert_compacted(
    before: Sequence[Keyed],
    after: Sequence[Keyed],
    history: History,
    *,
    first_dirty: int,
    end: int,
) -> None:
    """What compaction of the records below `end` may and must have left of `before`.

    Tombstones may stay or go. Nothing else may be missing but what a later record of the same key
    or an abort has made worthless, and nothing of that may be left.
    """
    aborted = history.aborted_records()
    last: dict[bytes | None, int] = {}
    for record in before:
        if first_dirty <= record.offset < end and record.offset not in aborted:
            last[record.key] = record.offset
    worthless = {
        record.offset
        for record in before
        if record.offset < end
        and (record.offset in aborted or last.get(record.key, -1) > record.offset)
    }
    left = {record.offset for record in after}
    assert not left & worthless, f"left: {sorted(left & worthless)[:5]}"
    kept = [record for record in before if record.offset not in worthless]
    missing = [
        record.offset
        for record in kept
        if record.offset not in left
        and record.offset not in aborted  # they go from all of a segment, or not yet
        and (record.value is not None or record.offset >= end)
    ]
    assert not missing, f"gone: {missing[:5]}"
    assert list(after) == [record for record in kept if record.offset in left]


@dataclass
class Expected:
    """What may be found in a log whose process, or machine, came to its end."""

    must: Mapping[int, Keyed]
    """Records that are there for sure, by offset."""

    may: Mapping[int, Sequence[Keyed]]
    """Those and others that may be: removed, but not for good yet, or just being written; more
    than one at an offset where the log was cut."""

    dense_from: int
    """From here on there are no gaps: nothing was compacted."""

    def check(self, found: Sequence[Keyed]) -> None:
        """AssertionError, with what is wrong."""
        there = {record.offset: record for record in found}
        assert len(there) == len(found), "an offset twice"
        assert [record.offset for record in found] == sorted(there), "not in order"
        lost = [offset for offset, record in self.must.items() if there.get(offset) != record]
        assert not lost, f"lost: {lost[:5]}"
        wrong = [record for record in found if record not in self.may.get(record.offset, ())]
        assert not wrong, f"never written, or otherwise: {wrong[:3]}"
        if found:
            begin = max(self.dense_from, found[0].offset)
            inside = [o for o in self.may if begin <= o <= found[-1].offset and o not in there]
            assert not inside, f"a gap: {sorted(inside)[:5]}"


def together(*parts: Mapping[int, Keyed]) -> dict[int, list[Keyed]]:
    """All records of all parts, by their offsets."""
    found: dict[int, list[Keyed]] = {}
    for part in parts:
        for offset, record in part.items():
            found.setdefault(offset, []).append(record)
    return found


def by_offset(records: Iterable[Keyed]) -> dict[int, Keyed]:
    """The records by their offsets."""
    return {record.offset: record for record in records}
