"""Kavka as a process that dies of SIGKILL at a given step on its disk."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import ClassVar

from support.broker import Kavka

SIGKILLED = -signal.SIGKILL


class DoomedKavka(Kavka):
    """A broker process that dies at a given step."""

    kind: ClassVar[str] = "doomed kavka"

    def command(self) -> list[str]:
        before, after = [sys.executable, "-m", "support.checked"], super().command()
        assert after[: len(before)] == before
        return [sys.executable, "-m", "support.doomed", str(self._doom), *after[len(before) :]]

    @property
    def _doom(self) -> Path:
        return self.home / "doom"

    def doom(self, steps: int, part: str = "/") -> None:
        """It is to make so many more steps on paths with `part` in them, and then die."""
        ready = self._doom.with_suffix(".ready")
        ready.write_text(f"{steps} {part}")
        ready.rename(self._doom)

    def has_died(self) -> bool:
        """Whether it has; then it can be started again."""
        if self.process is None:
            return True
        code = self.process.poll()
        if code is None:
            return False
        assert code == SIGKILLED, f"{self.kind} ended with {code}\n{self.tail()}"
        self.process = None
        return True

    def launch(self) -> None:
        self._doom.unlink(missing_ok=True)
        super().launch()
