"""What a test says to a broker that runs: how its disk and its clock fail from now on.

Both have the same few numbers in memory, which are a file: see `broken`.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

_NUMBERS: Final = ("skew_ms", "sync_ms", "failing")
_number = struct.Struct("q")

WRITES, READS, SYNCS = 1, 2, 3
"""What of a disk fails."""


class Control:
    """The numbers, all 0 where nothing fails."""

    def __init__(self, path: str) -> None:
        """The file is made if there is none."""
        with Path(path).open("a+b") as file:
            file.truncate(len(_NUMBERS) * _number.size)
            self._shared = mmap.mmap(file.fileno(), 0)
        self.path = path

    def _get(self, at: int) -> int:
        (found,) = _number.unpack_from(self._shared, at * _number.size)
        return int(found)

    def _set(self, at: int, value: int) -> None:
        _number.pack_into(self._shared, at * _number.size, value)

    @property
    def skew_ms(self) -> int:
        """How much the clock is ahead."""
        return self._get(0)

    @skew_ms.setter
    def skew_ms(self, value: int) -> None:
        self._set(0, value)

    @property
    def sync_ms(self) -> int:
        """How long an fsync takes at least."""
        return self._get(1)

    @sync_ms.setter
    def sync_ms(self, value: int) -> None:
        self._set(1, value)

    @property
    def failing(self) -> int:
        """What of the disk fails with EIO: 0 for nothing."""
        return self._get(2)

    @failing.setter
    def failing(self, value: int) -> None:
        self._set(2, value)

    def heal(self) -> None:
        """Nothing fails any more."""
        self.skew_ms = self.sync_ms = self.failing = 0
