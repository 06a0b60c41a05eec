"""The producer state snapshots in a partition's directory: list, save, load, remove."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Final

from kavka.log.errors import CorruptFileError
from kavka.log.fs import FileSystem
from kavka.log.producer_state import (
    SNAPSHOT_HEAD_BYTES,
    ProducerStates,
    crc_of_count,
    snapshot_bytes,
    snapshot_head,
)
from kavka.log.segment import DELETED
from kavka.wire.crc import crc32c
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

SUFFIX: Final = ".snapshot"


class Snapshots:
    """Snapshots by offset: each has the state before its offset."""

    __slots__ = ("_directory", "_fs", "_offsets", "_writing")

    def __init__(self, fs: FileSystem, directory: str, offsets: Iterable[int]) -> None:
        self._fs = fs
        self._directory = directory
        self._offsets = sorted(offsets)
        self._writing: _Writing | None = None

    @property
    def newest(self) -> int:
        """Offset of the newest snapshot; -1 if there is none."""
        return self._offsets[-1] if self._offsets else -1

    @property
    def offsets(self) -> list[int]:
        """The offsets of all snapshots, increasing."""
        return list(self._offsets)

    def has(self, offset: int) -> bool:
        """Whether there is a snapshot at `offset`."""
        return offset in self._offsets

    def save(self, offset: int, states: ProducerStates) -> str:
        """Write the state before `offset`, without fsync; the path of the file."""
        self.abandon()
        path = self._path(offset)
        self._fs.write_atomic(path, states.encode(), sync=False)
        self._add(offset)
        return path

    def _add(self, offset: int) -> None:
        if offset not in self._offsets:
            insort(self._offsets, offset)

    @property
    def is_writing(self) -> bool:
        """Whether a stepwise snapshot is being written."""
        return self._writing is not None

    def begin(self, offset: int, states: ProducerStates) -> None:
        """Begin to save the current state, before `offset`, with `write_step`. The snapshot exists
        when it is complete. OSError: none is begun."""
        self.abandon()
        self._writing = _Writing(self._fs, self._path(offset), offset, states)

    def write_step(self) -> str | None:
        """Write another part of the snapshot being written; at its end the path of the file. After
        an OSError it is useless."""
        writing = self._writing
        if writing is None or not writing.step():
            return None
        self._fs.rename(writing.temporary_path, writing.path)
        self._add(writing.offset)
        self._writing = None
        return writing.path

    def abandon(self) -> None:
        """Abandon the snapshot being written, if any. OSError."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.states.thaw()
            self._fs.remove(writing.temporary_path)

    def load(self, upto: int, states: ProducerStates) -> Steps[int]:
        """Load the newest valid snapshot at `upto` or before, in steps; its offset, -1 if there
        is none.

        Corrupt ones are removed with a warning: an older one and the batches since then lead to
        the same state.
        """
        states.clear()
        for offset in reversed(self._offsets[: bisect_right(self._offsets, upto)]):
            path = self._path(offset)
            try:
                yield from states.load(self._fs.open(path), path)
                return offset
            except CorruptFileError as error:
                logger.warning("%s; removing it and using an older one", error)
                self.remove(offset)
        return -1

    def remove(self, offset: int) -> None:
        """Remove the snapshot at `offset`, if there is one."""
        if offset in self._offsets:
            self._offsets.remove(offset)
            self._fs.remove(self._path(offset))

    def mark_deleted(self, offsets: Iterable[int]) -> list[str]:
        """Rename the snapshots at `offsets` to be deleted later, since a removal takes up to a
        millisecond. Their new paths."""
        renamed = []
        for offset in offsets:
            if self._writing is not None and self._writing.offset == offset:
                self.abandon()
            if offset in self._offsets:
                self._offsets.remove(offset)
                renamed.append(self._path(offset) + DELETED)
                self._fs.rename(self._path(offset), renamed[-1])
        return renamed

    def remove_above(self, offset: int) -> None:
        """Remove the snapshots after `offset`, durably (with fsync if there are any): they would be
        wrong when the log has grown beyond them again."""
        above = self._offsets[bisect_right(self._offsets, offset) :]
        for snapshot in above:
            self.remove(snapshot)
        if above:
            self._fs.sync_dir(self._directory)

    def remove_below(self, offset: int) -> None:
        """Remove the snapshots before `offset`."""
        for snapshot in self._offsets[: bisect_left(self._offsets, offset)]:
            self.remove(snapshot)

    def remove_strays(self, bases: Iterable[int]) -> None:
        """Remove snapshots that are not at the base offset of a segment, except a newest one after
        all of them, which was written by a clean shutdown.
        """
        known = frozenset(bases)
        last_base = max(known, default=-1)
        for offset in self.offsets:
            if offset not in known and (offset != self.newest or offset < last_base):
                self.remove(offset)

    def relocate(self, directory: str) -> None:
        """Use the equal files in another directory; no snapshot may be being written."""
        self._directory = directory

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"


class _Writing:
    """A snapshot being written in steps."""

    __slots__ = (
        "_count",
        "_crc",
        "_end",
        "_file",
        "_size",
        "offset",
        "path",
        "temporary_path",
        "states",
    )

    def __init__(self, fs: FileSystem, path: str, offset: int, states: ProducerStates) -> None:
        self.offset = offset
        self.path = path
        self.temporary_path = f"{path}.tmp"
        self.states = states
        self._count = len(states)
        self._crc = crc_of_count(self._count)
        self._end = SNAPSHOT_HEAD_BYTES
        self._size = snapshot_bytes(self._count)
        self._file = fs.create(self.temporary_path)
        states.freeze()

    def step(self) -> bool:
        """Write a part; whether the file is complete. OSError."""
        part = self.states.frozen()
        self._file.pwrite(part, self._end)
        self._crc = crc32c(part, self._crc)
        self._end += len(part)
        if self._end < self._size:
            return False
        self.states.thaw()
        self._file.pwrite(snapshot_head(self._count, self._crc), 0)
        self._file.close()
        return True
