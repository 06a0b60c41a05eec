"""The broker's current settings: static configs with dynamic configs on top.

A part of the broker with dynamic settings gets this object, and reads `live.now.x` when it needs x.
Actions at the moment of a change are done by a watcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kavka.server.config import BrokerSettings

    Watcher: TypeAlias = Callable[[BrokerSettings, BrokerSettings], object]
    """Called with the settings before and after a change."""


logger = logging.getLogger(__name__)


class LiveSettings:
    """The settings in force."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.now = settings
        """Never changed in place: for consistent values of several settings read it once."""
        self._watchers: list[Watcher] = []

    def on_change(self, watcher: Watcher) -> None:
        """Call `watcher` after each change; watchers are called in order of registration."""
        self._watchers.append(watcher)

    def change(self, settings: BrokerSettings) -> None:
        """Put `settings` in force. Settings equal to those in force are no change."""
        old, self.now = self.now, settings
        if settings == old:
            return
        for watcher in self._watchers:
            try:
                watcher(old, settings)
            except Exception:  # the settings are in force: the other watchers must still run
                logger.exception("a changed setting could not be applied by %r", watcher)
