"""Configures logging for a broker in its own process: destination and levels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.server.cluster.logger_levels import LEVELS

FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
"""That of Apache Kafka's own log4j configuration."""

PACKAGES: Final = (
    "kavka",
    "kavka.groupcoord",
    "kavka.log",
    "kavka.server",
    "kavka.server.controller",
    "kavka.server.coordination",
    "kavka.server.replica",
    "kavka.txncoord",
)
"""Parent loggers, created so that clients can set the level of all loggers below them."""


def start_log(levels: Sequence[str], path: str | None) -> None:
    """Log to standard error, or to the file at `path`, from INFO on.

    `levels` are Apache Kafka's names, as LEVEL for all loggers or LOGGER=LEVEL for one and those
    below it. A file that was moved or removed is reopened at the next line. Raises OSError if it
    can't be written, ValueError for an unknown level.
    """
    chosen: dict[str, int] = {"": logging.INFO}
    for text in levels:
        name, _, level = text.rpartition("=")
        if level.upper() not in LEVELS:
            raise ValueError(f"{level} is not a log level: there are {', '.join(LEVELS)}")
        chosen[name.strip()] = LEVELS[level.upper()]
    logging.addLevelName(LEVELS["TRACE"], "TRACE")
    logging.basicConfig(format=FORMAT, handlers=[_handler(path)])
    for name in PACKAGES:
        logging.getLogger(name)
    for name, number in chosen.items():
        logging.getLogger(name or None).setLevel(number)


def _handler(path: str | None) -> logging.Handler:
    if path is None:
        return logging.StreamHandler()
    from logging.handlers import WatchedFileHandler  # takes some ms, and is rarely used

    return WatchedFileHandler(path, encoding="utf-8")
