"""The undecided transactions of a partition, which determine the last stable offset.

A transaction is undecided until its marker is below the high watermark, because a fail-over could
lose the marker. read_committed consumers get no records from the first record of such a
transaction on (KIP-98).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

ENDED_MAX: Final = 10_000
"""Ended transactions that are remembered separately until the high watermark passes their markers;
more are merged, as if they had ended with the last of them."""


class Transactions:
    """The undecided transactions of one partition."""

    __slots__ = ("_ended", "_ongoing", "all_decided")

    def __init__(self) -> None:
        self.all_decided = True
        """Whether there is none: the last stable offset is the high watermark."""
        self._ongoing: OrderedDict[int, int] = OrderedDict()  # first offset -> producer, increasing
        # (marker, first offset), both increasing: one that contains others replaces them
        self._ended: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._ongoing)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a producer's transaction, which starts at `first_offset`, after all others."""
        self._ongoing[first_offset] = producer_id
        self.all_decided = False

    def stable_after(self, first_offset: int, marker_offset: int) -> int:
        """The offset below which all transactions have ended when the one that started at
        `first_offset` gets its marker; ignores the high watermark."""
        ongoing = iter(self._ongoing)
        first = next(ongoing, marker_offset + 1)
        return next(ongoing, marker_offset + 1) if first == first_offset else first

    def end(self, first_offset: int, marker_offset: int) -> None:
        """End the transaction that started at `first_offset`: its marker is at `marker_offset`."""
        self._ongoing.pop(first_offset, None)
        ended = self._ended
        first = first_offset
        while ended and ended[-1][1] >= first_offset:
            ended.pop()
        if len(ended) >= ENDED_MAX:
            first = ended.pop()[1]
        ended.append((marker_offset, first))
        self.all_decided = False

    def first_unstable(self, high_watermark: int) -> int | None:
        """The first offset of the oldest undecided transaction; None if there is none."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()
        first = next(iter(self._ongoing), None)
        if not ended:
            self.all_decided = first is None
            return first
        return ended[0][1] if first is None else min(first, ended[0][1])

    @property
    def oldest_producer(self) -> int | None:
        """The producer of the oldest ongoing transaction; None if there is none."""
        return next(iter(self._ongoing.values()), None)

    def clear(self) -> None:
        """Remove all transactions."""
        self._ongoing.clear()
        self._ended.clear()
        self.all_decided = True
