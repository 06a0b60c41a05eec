"""Leader epochs of a partition: which epoch began at which offset (KIP-101, KIP-320).

A former leader may have records that the new leader lacks; by asking the leader for the end offset
of its own last epoch it learns where to truncate.
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
    """Epochs and their start offsets in memory, both increasing."""

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
        """Set the start offset of `epoch`; whether that changed anything.

        Removes conflicting entries: those with a later epoch or a later start offset.
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

        For an epoch older than all known ones, even below -1: that epoch and the first known
        start offset. `UNDEFINED` for an epoch newer than all, or -1.
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
        """Drop epochs that ended before `start`, and have the first one start there."""
        after = bisect_right(self._starts, start)
        if after == 0 or (after == 1 and self._starts[0] == start):
            return False
        del self._epochs[: after - 1]
        del self._starts[: after - 1]
        self._starts[0] = start
        return True

    def clear(self) -> None:
        """Drop all epochs."""
        self._epochs.clear()
        self._starts.clear()
        self.latest = -1


class EpochFile:
    """The leader epochs of a log and their checkpoint file, written (without fsync) on a change.

    After an OSError the epochs are unchanged. Two changes are not written at once: a higher log
    start offset, because loading truncates the epochs to it anyway; and an epoch without records,
    because it changes no response. It is written with its first record, so that a starting broker
    does not write a file for each of its partitions.
    """

    __slots__ = ("_epochs", "_fs", "latest", "path", "saves")

    def __init__(self, fs: FileSystem, directory: str, epochs: LeaderEpochs) -> None:
        """`epochs` is the content of the file."""
        self._fs = fs
        self._epochs = epochs
        self.path = f"{directory}/{FILE}"
        self.latest = epochs.latest
        """The newest epoch in the file."""
        self.saves = 0
        """How often the file was written."""

    @property
    def epochs(self) -> LeaderEpochs:
        """The epochs; read only."""
        return self._epochs

    def announce(self, epoch: int, start: int) -> None:
        """`epoch` starts at offset `start`, and has no record yet."""
        self._epochs.assign(epoch, start)

    def assign(self, epoch: int, start: int) -> bool:
        """`epoch` starts at offset `start` with a record; whether the file was written."""
        changed = LeaderEpochs(self._epochs.entries())
        has_changed = changed.assign(epoch, start)
        return (has_changed or self.latest != epoch) and self.save(changed)

    def truncate_end(self, end: int) -> bool:
        """Drop epochs that start at `end` or later; whether the file was written."""
        changed = LeaderEpochs(self._epochs.entries())
        return changed.truncate_end(end) and self.save(changed)

    def truncate_start(self, start: int) -> None:
        """Drop epochs that ended before `start`; written with the next other change."""
        self._epochs.truncate_start(start)

    def save(self, epochs: LeaderEpochs) -> bool:
        """Write these epochs and use them from now on; True."""
        self._fs.write_atomic(self.path, encode_epochs(epochs.entries()), sync=False)
        self._epochs = epochs
        self.latest = epochs.latest
        self.saves += 1
        return True

    def relocate(self, directory: str) -> None:
        """Use the file in another directory, which has the same content."""
        self.path = f"{directory}/{FILE}"
