"""The broker's settings as they are now: those of its start, changed by what was set since.

A part whose settings a running broker takes is handed this, and reads `live.now.x` when it needs
x. What has to be done at the moment of a change is done by a watcher.
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
        """Never changed in place: who needs several settings that fit together takes it once."""
        self._watchers: list[Watcher] = []

    def on_change(self, watcher: Watcher) -> None:
        """Call `watcher` after each change, in the order in which watchers came."""
        self._watchers.append(watcher)

    def change(self, settings: BrokerSettings) -> None:
        """Put `settings` in force. Settings equal to those in force are no change."""
        old, self.now = self.now, settings
        if settings == old:
            return
        for watcher in self._watchers:
            try:
                watcher(old, settings)
            except Exception:  # the settings are in force: the others have to act on them
                logger.exception("a changed setting could not be put into effect by %r", watcher)
