"""`python -m bench.profile_broker FILE start ...`: a Kavka that can be profiled while it serves.

SIGUSR1 starts cProfile on the broker's loop; SIGUSR2 stops it and writes the figures to FILE, as
does the end of the broker if the profile still runs.
"""

from __future__ import annotations

import cProfile
import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType


class Recorder:
    """Turns a profile on and off; `write` leaves FILE whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._profile = cProfile.Profile()  # by the wall: reading the CPU clock costs far more
        self._running = False

    def start(self, signum: int, frame: FrameType | None) -> None:
        """Handle SIGUSR1."""
        self._running = True
        self._profile.enable()

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """Handle SIGUSR2."""
        self.write()

    def write(self) -> None:
        """Stop and write; nothing when no profile runs."""
        if not self._running:
            return
        self._profile.disable()
        self._running = False
        partial = self._path.with_suffix(".partial")
        self._profile.dump_stats(partial)
        os.replace(partial, self._path)


def main() -> None:
    """Run `kavka` with the remaining arguments."""
    recorder = Recorder(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, recorder.start)
    signal.signal(signal.SIGUSR2, recorder.stop)
    try:
        runpy.run_module("kavka", run_name="__main__", alter_sys=True)
    finally:
        recorder.write()


if __name__ == "__main__":
    main()
