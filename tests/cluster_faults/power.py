"""Which bytes of a broker's files were on its disk when the power was cut.

`Synced` is the broker's side: it notes how much of each file that it writes is synced. `cut` is the
test's side: once the broker is killed, it takes the rest of each file away. Names are not
lost: a file that was created, renamed or removed stays so, as where a file system has written its
own journal, but no data. What a broker finds at its start counts as synced.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

_note = struct.Struct("QQ")
"""Inode, and how many of its bytes are synced."""


class Synced:
    """Of one broker in one of its lives."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._bytes: dict[int, int] = {}
        """By inode, of files that this life has written."""

    def _set(self, inode: int, size: int) -> None:
        self._bytes[inode] = size
        os.write(self._notes, _note.pack(inode, size))

    def created(self, inode: int) -> None:
        """A file is new, or was truncated to nothing."""
        self._set(inode, 0)

    def writing(self, inode: int, size: int) -> None:
        """A file of this size will be written to."""
        if inode not in self._bytes:
            self._set(inode, size)

    def truncated(self, inode: int, size: int) -> None:
        """A file has this size now."""
        if self._bytes.get(inode, size + 1) > size:
            self._set(inode, size)

    def synced(self, inode: int, size: int) -> None:
        """A file, when it had this size."""
        self._set(inode, size)

    def removed(self, inode: int) -> None:
        """Another file may be given the same inode."""
        self._bytes.pop(inode, None)


def synced_bytes(notes: Path) -> dict[int, int]:
    """What was noted last, by inode."""
    content = notes.read_bytes() if notes.exists() else b""
    whole = len(content) // _note.size * _note.size
    return dict(_note.iter_unpack(content[:whole]))


def unsynced(data_dir: Path, notes: Path) -> Iterator[tuple[Path, int]]:
    """The files that hold more than is synced, and how much of each is."""
    known = synced_bytes(notes)
    for path in sorted(data_dir.rglob("*")):
        if path.is_file():
            found = path.stat()
            safe = known.get(found.st_ino, found.st_size)
            if safe < found.st_size:
                yield path, safe


def cut(data_dir: Path, notes: Path, chance: random.Random) -> int:
    """Take away what was not synced: of some files it is missing, of others it is zeros. How many
    bytes there were."""
    lost = 0
    for path, safe in unsynced(data_dir, notes):
        size = path.stat().st_size
        lost += size - safe
        os.truncate(path, safe)
        if chance.random() < 0.5:
            os.truncate(path, size)
    return lost
