"""The loggers of one simulated broker: brokers of a world share a process, but no levels.

What is logged is not filtered by them: the judge sees every error (`sim.run.Complaints`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kavka.server.cluster.logger_levels import ROOT

NAMES = (ROOT, "kavka.server", "kavka.d0", "kavka.d1")
"""Always the same ones, so that responses do not depend on what was imported before. Each
administrator (`sim.admins`) has one."""


class SimLoggers:
    """`kavka.server.cluster.logger_levels.Loggers`."""

    def __init__(self) -> None:
        self._levels = dict.fromkeys(NAMES, logging.NOTSET) | {ROOT: logging.INFO}

    def names(self) -> Iterable[str]:
        return self._levels

    def level(self, name: str) -> int | None:
        return self._levels.get(name)

    def effective_level(self, name: str) -> int:
        return self._levels[name] or self._levels[ROOT]

    def set_level(self, name: str, level: int) -> None:
        self._levels[name] = level
