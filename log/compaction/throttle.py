"""A limit on the bytes read and written per second."""

from __future__ import annotations

from typing import Final

from kavka.seams import Worker

NAP_S: Final = 0.1
"""Shorter waits are accumulated."""


class Throttle:
    """Keeps the average rate since its creation at or below `bytes_per_s`."""

    def __init__(self, bytes_per_s: float, worker: Worker) -> None:
        self._bytes_per_s = bytes_per_s
        self._worker = worker
        self._began_s = worker.monotonic_s()
        self._done_bytes = 0
        self.waited_s = 0.0

    def spend(self, size_bytes: int) -> None:
        """Count I/O, and wait if the rate is too high."""
        self._done_bytes += size_bytes
        due_s = self._began_s + self._done_bytes / self._bytes_per_s
        ahead_s = due_s - self._worker.monotonic_s()
        if ahead_s >= NAP_S:
            self._worker.sleep(ahead_s)
            self.waited_s += ahead_s
