"""The levels of this process's loggers, as the broker's resource BROKER_LOGGER (KIP-412).

Levels have Apache Kafka's names and last until the broker ends: a program may have one inside it,
and loggers of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, TypeAlias

from kavka.server.cluster.config_changes import Change, Op
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

ROOT: Final = "root"
OFF: Final = "OFF"
"""Shown for a level above all that can be set."""

LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Python's numbers; it has none for TRACE."""


Before: TypeAlias = dict[logging.Logger, int]
"""The levels of their own that loggers had before a client of this broker changed them."""


def levels() -> dict[str, str]:
    """The level in force of each logger, by name."""
    found: dict[str, logging.Logger] = {ROOT: logging.root}
    for name, one in logging.root.manager.loggerDict.items():
        if isinstance(one, logging.Logger):  # else it stands for a parent that nobody has made
            found[name] = one
    return {name: _shown(found[name]) for name in sorted(found)}


def alter(changes: Iterable[Change], before: Before, *, validate_only: bool) -> None:
    """Set or unset levels, all or none. ApiError INVALID_CONFIG, INVALID_REQUEST."""
    wanted = [(_checked(change), change) for change in changes]
    if validate_only:
        return
    for found, change in wanted:
        before.setdefault(found, found.level)
        level = None if change.op == Op.DELETE else str(change.value)
        found.setLevel(logging.NOTSET if level is None else LEVELS[level])
        logger.warning("changed level of logger %s: %s", change.name, level or "unset")


def restore(before: Before) -> None:
    """Give changed loggers their levels back."""
    while before:
        found, level = before.popitem()
        found.setLevel(level)


def _checked(change: Change) -> logging.Logger:
    """The logger of an allowed change."""
    if change.op in (Op.APPEND, Op.SUBTRACT):
        reason = f"{Op(change.op).name} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    name = change.name
    found = logging.root if name == ROOT else logging.root.manager.loggerDict.get(name)
    if not isinstance(found, logging.Logger):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if change.op == Op.DELETE and name == ROOT:
        reason = f"Removing the log level of the {ROOT} logger is not allowed"
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    if change.op == Op.SET and change.value not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    return found


def _shown(found: logging.Logger) -> str:
    """The lowest of Kafka's levels that is logged."""
    level = found.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level <= number), OFF)
