"""The broker's current settings: static configs with dynamic configs on top.

A part of the broker with dynamic settings gets this object, and reads `live.now.x` when it needs x.
Actions at the moment of a change are done by a listener.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kavka.server.config import BrokerSettings

    Listener: TypeAlias = Callable[[BrokerSettings, BrokerSettings], object]
    """Called with the settings before and after a change."""


logger = logging.getLogger(__name__)


class LiveSettings:
    """The settings in force."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.now = settings
        """Never changed in place: for consistent values of several settings read it once."""
        self._listeners: list[Listener] = []

    def on_change(self, listener: Listener) -> None:
        """Call `listener` after each change; listeners are called in order of registration."""
        self._listeners.append(listener)

    def change(self, settings: BrokerSettings) -> None:
        """Put `settings` in force. Settings equal to those in force are no change."""
        old, self.now = self.now, settings
        if settings == old:
            return
        for listener in self._listeners:
            try:
                listener(old, settings)
            except Exception:  # the settings are in force: the other listeners must still run
                logger.exception("a changed setting could not be applied by %r", listener)
