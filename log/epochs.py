"""Leader epochs of a partition: which epoch began at which offset (KIP-101, KIP-320).

A replica that was leader for a while may have records that the next leader lacks; by asking for
the end of its own last epoch it learns where to cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from kavka.log.checkpoint import encode_epochs
from kavka.log.fs import FileSystem

FILE: Final = "leader-epoch-checkpoint"

UNDEFINED: Final = (-1, -1)
"""Epoch and end offset when nothing is known."""


class LeaderEpochs:
    """Epochs with their start offsets, both rising; in memory."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = -1
        for epoch, start in entries:
            self.assign(epoch, start)

    def __len__(self) -> int:
        return len(self._epochs)

    def entries(self) -> list[tuple[int, int]]:
        """Epochs and start offsets, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """`epoch` begins at offset `start`; whether that is news.

        Entries that contradict it (a later epoch or one that starts later) give way.
        """
        if epoch < 0 or start < 0:
            raise ValueError(f"leader epoch {epoch} can't begin at offset {start}")
        if epoch == self.latest and self._starts[-1] <= start:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        return True

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The greatest known epoch not above `epoch`, and the offset after its last record.

        For an epoch older than all that are known, even one below -1: that epoch and the first
        known start. `UNDEFINED` for one that is newer than all, or -1.
        """
        if epoch == -1 or epoch > self.latest or not self._starts:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self._epochs, epoch)
        return self._epochs[after - 1] if after else epoch, self._starts[after]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the record at `offset` was, or would be, written; -1 unknown."""
        after = bisect_right(self._starts, offset)
        return self._epochs[after - 1] if after else -1

    def truncate_end(self, end: int) -> bool:
        """Drop epochs that start at `end` or later; whether there were any."""
        if not self._starts or self._starts[-1] < end:
            return False
        while self._starts and self._starts[-1] >= end:
            self._epochs.pop()
            self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else -1
        return True

    def truncate_start(self, start: int) -> bool:
        """Drop epochs that ended before `start`, and let the first begin there."""
        after = bisect_right(self._starts, start)
        if after == 0 or (after == 1 and self._starts[0] == start):
            return False
        del self._epochs[: after - 1]
        del self._starts[: after - 1]
        self._starts[0] = start
        return True

    def clear(self) -> None:
        """Forget all."""
        self._epochs.clear()
        self._starts.clear()
        self.latest = -1


class EpochFile:
    """The leader epochs of a log with their file, which is written, not fsynced, when they change.

    OSError: they have not changed. Two changes are not written at once. Of a later start: whoever
    loads a file that is behind knows where the log begins, and finds the same. And of an epoch
    that has no records: without it any answer is the same, so it is announced and written with its
    first record. A broker that starts makes an epoch for each partition, and may have thousands.
    """

    __slots__ = ("_epochs", "_fs", "latest", "path", "saves")

    def __init__(self, fs: FileSystem, directory: str, epochs: LeaderEpochs) -> None:
        """Takes `epochs` to be what is in the file."""
        self._fs = fs
        self._epochs = epochs
        self.path = f"{directory}/{FILE}"
        self.latest = epochs.latest
        """The newest epoch in the file."""
        self.saves = 0
        """How often the file was written."""

    @property
    def epochs(self) -> LeaderEpochs:
        """The epochs, to be read."""
        return self._epochs

    def announce(self, epoch: int, start: int) -> None:
        """`epoch` begins at offset `start`, and has no record yet."""
        self._epochs.assign(epoch, start)

    def assign(self, epoch: int, start: int) -> bool:
        """`epoch` begins at offset `start` with a record; whether that was written."""
        changed = LeaderEpochs(self._epochs.entries())
        is_news = changed.assign(epoch, start)
        return (is_news or self.latest != epoch) and self.save(changed)

    def truncate_end(self, end: int) -> bool:
        """Drop epochs that start at `end` or later; whether anything was written."""
        changed = LeaderEpochs(self._epochs.entries())
        return changed.truncate_end(end) and self.save(changed)

    def truncate_start(self, start: int) -> None:
        """Drop epochs that ended before `start`; that is written with the next change."""
        self._epochs.truncate_start(start)

    def save(self, epochs: LeaderEpochs) -> bool:
        """Write other epochs and take them over; True."""
        self._fs.write_atomic(self.path, encode_epochs(epochs.entries()), sync=False)
        self._epochs = epochs
        self.latest = epochs.latest
        self.saves += 1
        return True

    def relocate(self, directory: str) -> None:
        """Use the file in another directory, which says the same."""
        self.path = f"{directory}/{FILE}"
