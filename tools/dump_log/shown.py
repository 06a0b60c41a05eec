"""What a dump consists of: pieces of text, and the same for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kavka.tools.admin.java_order import ComputedMap


class Shown(NamedTuple):
    """A piece of text, which may be a part of a line, and the entry that ends with it."""

    text: str
    entry: Mapping[str, Any] | None = None
    """What --output json prints. None: there is none, or it is not complete yet."""


Dump = Iterator[Shown]
"""Failed where a file is damaged so that nothing more can be read of it."""


class Complaints:
    """What was found wrong in files that could be read; reported after all of them."""

    def __init__(self) -> None:
        self.other_batches: ComputedMap[dict[int, int]] = ComputedMap(dict)
        """By index file: offset of an entry, last offset of the batch there."""
        self.other_timestamps: ComputedMap[list[tuple[int, int]]] = ComputedMap(list)
        """By time index file: timestamp of an entry, greatest one of the batch."""
        self.out_of_order: ComputedMap[list[tuple[int, int]]] = ComputedMap(list)
        """By time index file: timestamp of an entry, that of the one before."""
        self.not_found: ComputedMap[list[tuple[int, int]]] = ComputedMap(list)
        """By time index file: offset of an entry, that of the batch found instead, -1 for none."""
        self.gaps: ComputedMap[dict[int, int]] = ComputedMap(dict)
        """By segment file: an offset, and the one that follows it."""
        self.others: list[str] = []
        """Printed as they are found."""

    def lines(self) -> Iterator[str]:
        """In the words, and the order, of Apache Kafka."""
        for path in self.other_batches.in_order():
            yield f"Mismatches in :{path}"
            for offset, found in sorted(self.other_batches[path].items(), reverse=True):
                yield f"  Index offset: {offset}, log offset: {found}"
        for path in self.other_timestamps.in_order():
            yield f"Found timestamp mismatch in :{path}"
            for timestamp, found in self.other_timestamps[path]:
                yield f"  Index timestamp: {timestamp}, log timestamp: {found}"
        for path in self.out_of_order.in_order():
            yield f"Found out of order timestamp in :{path}"
            for timestamp, before in self.out_of_order[path]:
                yield f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
        for path in self.not_found.in_order():
            yield f"The following indexed offsets are not found in :{path}"
            for offset, found in self.not_found[path]:
                yield f"Indexed offset: {offset}, found log offset: {found}"
        for path in self.gaps.in_order():
            yield f"Non-consecutive offsets in {path}"
            for offset, after in sorted(self.gaps[path].items()):
                yield f"  {offset} is followed by {after}"
