"""Which offset in the target a record of the source has: exact, whatever is missing on either side.

Offsets differ as both sides have some that are no records' (markers of transactions, aborted
records, what was compacted or deleted). So a map holds runs: records that follow each other without
a gap on both sides. Runs are kept in chunks, of which only the last grows: a chunk is one record of
the ledger.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

RUNS_MAX: Final = 64
"""Of a chunk: about a kilobyte of the ledger."""


class Run(NamedTuple):
    """Records of the source from an offset on, which lie in the target from another on."""

    source: int
    target: int
    records: int


class Chunk(NamedTuple):
    """Some runs in a row; known by the first offset of the source."""

    first: int
    runs: Sequence[Run]


def runs_of(sources: Sequence[int], targets: Sequence[int]) -> list[Run]:
    """Of records in their order, whose offsets are given for both sides."""
    if not sources:
        return []
    last = len(sources) - 1
    if sources[-1] - sources[0] == last and targets[-1] - targets[0] == last:
        return [Run(sources[0], targets[0], last + 1)]  # the usual case, in one step
    found = []
    begin = 0
    for at in range(1, last + 2):
        if at <= last:
            source, target = sources[at] - sources[at - 1], targets[at] - targets[at - 1]
            if source == target == 1:
                continue
        found.append(Run(sources[begin], targets[begin], at - begin))
        begin = at
    return found


class OffsetMap:
    """Of one partition."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        """`chunks`: in the order of their offsets."""
        self._sources, self._targets, self._counts = array("q"), array("q"), array("q")
        self._firsts: list[int] = []
        """The number of each chunk's first run."""
        for chunk in chunks:
            self._firsts.append(len(self._sources))
            for run in chunk.runs:
                self._append(run)

    @property
    def next_source(self) -> int | None:
        """The offset behind the last record that was copied; None before the first."""
        return self._sources[-1] + self._counts[-1] if self._sources else None

    @property
    def firsts(self) -> list[int]:
        """The first offset of each chunk."""
        return [self._sources[number] for number in self._firsts]

    def add(self, runs: Iterable[Run]) -> list[Chunk]:
        """What was copied since: the chunks that have changed."""
        changed_from = max(0, len(self._firsts) - 1)
        for run in runs:
            if self._continues(run):
                self._counts[-1] += run.records
                continue
            if not self._firsts or len(self._sources) - self._firsts[-1] >= RUNS_MAX:
                self._firsts.append(len(self._sources))
            self._append(run)
        return [self._chunk(number) for number in range(changed_from, len(self._firsts))]

    def translate(self, offset: int) -> int | None:
        """Where one goes on in the target who would go on at `offset` in the source: at the first
        record from there on, or behind the last one if none was copied yet. None if the map is
        empty."""
        if not self._sources:
            return None
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return self._targets[0]
        inside = offset - self._sources[at]
        if inside < self._counts[at]:
            return self._targets[at] + inside
        if at + 1 < len(self._sources):
            return self._targets[at + 1]
        return self._targets[at] + self._counts[at]

    def forget(self, target_start: int) -> list[int]:
        """Drop chunks of records that the target has deleted, but never the last chunk: their first
        offsets."""
        gone = []
        while len(self._firsts) > 1:
            behind = self._firsts[1]
            if self._targets[behind - 1] + self._counts[behind - 1] > target_start:
                break
            gone.append(self._sources[0])
            for numbers in (self._sources, self._targets, self._counts):
                del numbers[:behind]
            self._firsts = [first - behind for first in self._firsts[1:]]
        return gone

    def _append(self, run: Run) -> None:
        self._sources.append(run.source)
        self._targets.append(run.target)
        self._counts.append(run.records)

    def _continues(self, run: Run) -> bool:
        """Whether it follows the last run without a gap."""
        if not self._sources:
            return False
        last = self._counts[-1]
        return (self._sources[-1] + last, self._targets[-1] + last) == (run.source, run.target)

    def _chunk(self, number: int) -> Chunk:
        begin = self._firsts[number]
        is_last = number + 1 == len(self._firsts)
        end = len(self._sources) if is_last else self._firsts[number + 1]
        columns = (self._sources[begin:end], self._targets[begin:end], self._counts[begin:end])
        return Chunk(self._sources[begin], [Run(*run) for run in zip(*columns, strict=True)])
