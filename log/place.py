"""Where a log is, and what it is given to work with."""

from __future__ import annotations

from typing import NamedTuple

from kavka.log.disk import Disk
from kavka.log.settings import LogSettings


class LogPlace(NamedTuple):
    """Which log, and what it needs to work."""

    disk: Disk
    directory: str
    topic: str
    partition: int
    settings: LogSettings
    now_ms: int
