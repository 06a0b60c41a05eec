"""A disk of its own for a broker, small enough to be filled: a tmpfs, where mounting is allowed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SIZE_BYTES = 256 << 20
BLOCK_BYTES = 1 << 20


class SmallDisk:
    """Mounted at a directory, in which `data` is the broker's. Where that is not permitted, it is
    an ordinary directory, and `is_small` False."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._filler = directory / "filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(directory)]
        mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False)
        self.is_small = mounted is not False and mounted.returncode == 0

    def fill(self) -> None:
        """Take all that is left."""
        assert self.is_small
        block = bytes(BLOCK_BYTES)
        with self._filler.open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(block)
            except OSError:
                return

    def empty(self) -> None:
        """Give it back."""
        self._filler.unlink()

    def release(self) -> None:
        """Unmount it; what it holds is gone."""
        if self.is_small:
            subprocess.run(["umount", "--lazy", str(self._directory)], check=True)
            self.is_small = False
