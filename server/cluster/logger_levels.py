"""The levels of a broker's loggers, as its resource BROKER_LOGGER (KIP-412).

Levels have Apache Kafka's names. In production the loggers are those of the process; the levels
are reset when the broker stops, as it may be embedded in a program that goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, Protocol

from kavka.server.cluster.config_changes import AlterOp, ConfigChange
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

ROOT: Final = "root"
OFF: Final = "OFF"
"""Shown for a logger whose level is above all of these."""

LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Python's numbers; it has none for TRACE."""


class Loggers(Protocol):
    """Loggers by name, with levels in Python's numbers; the root logger's name is `ROOT`."""

    def names(self) -> Iterable[str]:
        """Those of all loggers."""
        ...

    def level(self, name: str) -> int | None:
        """The logger's own level, NOTSET if it has none; None if there is no such logger."""
        ...

    def effective_level(self, name: str) -> int:
        """Its own level, or else that of the nearest parent that has one."""
        ...

    def set_level(self, name: str, level: int) -> None:
        """Set the logger's own level."""
        ...


class ProcessLoggers:
    """`Loggers` of Python's `logging`: those of the whole process."""

    def names(self) -> Iterable[str]:
        return [ROOT, *(name for name in logging.root.manager.loggerDict if _find(name))]

    def level(self, name: str) -> int | None:
        found = _find(name)
        return None if found is None else found.level

    def effective_level(self, name: str) -> int:
        return _logger(name).getEffectiveLevel()

    def set_level(self, name: str, level: int) -> None:
        _logger(name).setLevel(level)


class LoggerLevels:
    """The levels as a broker describes and alters them."""

    def __init__(self, loggers: Loggers) -> None:
        self._loggers = loggers
        self._before: dict[str, int] = {}
        """The own levels of loggers from before a client changed them."""

    def describe(self) -> dict[str, str]:
        """The level in force of each logger, by name."""
        loggers = self._loggers
        return {name: _shown(loggers.effective_level(name)) for name in sorted(loggers.names())}

    def alter(self, changes: Iterable[ConfigChange], *, validate_only: bool) -> None:
        """Set or unset levels, all or none of them. ApiError INVALID_CONFIG, INVALID_REQUEST."""
        checked = [(change, self._check(change)) for change in changes]
        if validate_only:
            return
        for change, current in checked:
            self._before.setdefault(change.name, current)
            level = None if change.op == AlterOp.DELETE else str(change.value)
            self._loggers.set_level(change.name, logging.NOTSET if level is None else LEVELS[level])
            logger.warning("changed level of logger %s: %s", change.name, level or "unset")

    def restore(self) -> None:
        """Reset changed loggers to their previous levels."""
        while self._before:
            self._loggers.set_level(*self._before.popitem())

    def _check(self, change: ConfigChange) -> int:
        """The current own level; ApiError if the change is not allowed."""
        if change.op in (AlterOp.APPEND, AlterOp.SUBTRACT):
            reason = (
                f"{AlterOp(change.op).name} operation is not allowed for the BROKER_LOGGER resource"
            )
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
        name = change.name
        current = self._loggers.level(name)
        if current is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if change.op == AlterOp.DELETE and name == ROOT:
            reason = f"Removing the log level of the {ROOT} logger is not allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
        if change.op == AlterOp.SET and change.value not in LEVELS:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {change.value} as it is not a supported "
                f"log level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )
        return current


def _find(name: str) -> logging.Logger | None:
    """None for a name without a logger, or with a placeholder for a parent logger."""
    if name == ROOT:
        return logging.root
    found = logging.root.manager.loggerDict.get(name)
    return found if isinstance(found, logging.Logger) else None


def _logger(name: str) -> logging.Logger:
    found = _find(name)
    assert found is not None, name
    return found


def _shown(level: int) -> str:
    """The lowest of Kafka's levels that a logger of this level logs."""
    return next((name for name, number in LEVELS.items() if level <= number), OFF)
