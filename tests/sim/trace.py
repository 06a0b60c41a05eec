"""What happens in a world, in order: two runs of a seed have the same trace, byte for byte."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable

KEPT = 20_000


class Trace:
    """Lines, of which the last ones are kept, and a digest of all of them."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._digest = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=KEPT)

    def add(self, who: str, event: str) -> None:
        """Something has happened."""
        line = f"{self._now_s():.6f} {who}: {event}"
        self._digest.update(line.encode())
        self.lines.append(line)

    def note(self, who: str, data: bytes) -> None:
        """Bytes have arrived: into the digest only."""
        self._digest.update(f"{self._now_s():.9f} {who} {len(data)} {zlib.crc32(data)}".encode())

    def digest(self) -> str:
        """Of all lines so far."""
        return self._digest.hexdigest()
