"""A file system in memory that now and then has no file descriptor left."""

from __future__ import annotations

import errno
import os
from typing import Final

from kavka.log.memfs import MemFs

OPENING: Final = frozenset({"open", "create", "read_bytes", "sync_dir", "list_dir", "lock"})
"""What takes a descriptor. (Of `remove_tree` that is the listing of a directory.)"""


class ShortFs(MemFs):
    """Counts what takes a descriptor; from the one numbered `short_from` on there is none,
    for so many calls as `short_for` says."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.short_from: int | None = None
        self.short_for = 1
        self.refused: list[tuple[str, str]] = []
        """What there was no descriptor for: the operation and its path."""

    def run_short(self, after: int, times: int = 1) -> None:
        """Have the next `times` calls fail, but for the first `after`."""
        self.short_from, self.short_for = self.opened + after, times
        self.refused.clear()

    def check(self, op: str, path: str) -> None:
        super().check(op, path)
        if op not in OPENING:
            return
        number, self.opened = self.opened, self.opened + 1
        first = self.short_from
        if first is not None and first <= number < first + self.short_for:
            self.refused.append((op, path))
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def remove_tree(self, path: str) -> None:
        if self.is_dir(path):
            self.check("list_dir", path)
        super().remove_tree(path)
