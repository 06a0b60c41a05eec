"""The levels of this process's loggers, as the broker's resource BROKER_LOGGER (KIP-412).

Levels have Apache Kafka's names. They are reset when the broker stops, as the broker may be
embedded in a program that goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, TypeAlias

from kavka.server.cluster.config_changes import AlterOp, ConfigChange
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

ROOT: Final = "root"
OFF: Final = "OFF"
"""Shown for a logger whose level is above all of these."""

LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Python's numbers; it has none for TRACE."""


SavedLevels: TypeAlias = dict[logging.Logger, int]
"""The own levels of loggers from before a client changed them."""


def levels() -> dict[str, str]:
    """The level in force of each logger, by name."""
    found: dict[str, logging.Logger] = {ROOT: logging.root}
    for name, one in logging.root.manager.loggerDict.items():
        if isinstance(one, logging.Logger):  # else a placeholder for a parent logger
            found[name] = one
    return {name: _shown(found[name]) for name in sorted(found)}


def alter(changes: Iterable[ConfigChange], before: SavedLevels, *, validate_only: bool) -> None:
    """Set or unset levels, all or none of them. ApiError INVALID_CONFIG, INVALID_REQUEST."""
    wanted = [(_checked(change), change) for change in changes]
    if validate_only:
        return
    for found, change in wanted:
        before.setdefault(found, found.level)
        level = None if change.op == AlterOp.DELETE else str(change.value)
        found.setLevel(logging.NOTSET if level is None else LEVELS[level])
        logger.warning("changed level of logger %s: %s", change.name, level or "unset")


def restore(before: SavedLevels) -> None:
    """Reset changed loggers to their previous levels."""
    while before:
        found, level = before.popitem()
        found.setLevel(level)


def _checked(change: ConfigChange) -> logging.Logger:
    """The logger of a change; ApiError if the change is not allowed."""
    if change.op in (AlterOp.APPEND, AlterOp.SUBTRACT):
        reason = (
            f"{AlterOp(change.op).name} operation is not allowed for the BROKER_LOGGER resource"
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    name = change.name
    found = logging.root if name == ROOT else logging.root.manager.loggerDict.get(name)
    if not isinstance(found, logging.Logger):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if change.op == AlterOp.DELETE and name == ROOT:
        reason = f"Removing the log level of the {ROOT} logger is not allowed"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    if change.op == AlterOp.SET and change.value not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    return found


def _shown(found: logging.Logger) -> str:
    """The lowest of Kafka's levels that the logger logs."""
    level = found.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level <= number), OFF)
