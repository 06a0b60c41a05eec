"""Computes the defaults of topic settings, and of `LogSettings`, from a broker's settings: of the
broker settings in the row's `fallback` (`log.retention.ms`, `.minutes`, `.hours`) the first one
that is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kavka.log.settings import LogSettings
from kavka.server.config.rows import Config
from kavka.server.config.table import BROKER, TOPIC
from kavka.server.config.validators import AtLeast
from kavka.server.config.value_types import Value


def topic_default(row: Config, values: Mapping[str, Value]) -> Value:
    """The default of topic setting `row` on a broker with these values by key."""
    for key, factor in row.fallback:
        value = values.get(key, BROKER[key].default if key in BROKER else row.default)
        if isinstance(value, int) and isinstance(row.check, AtLeast):
            # Any negative log.retention.ms disables it; for the topic's setting only -1 does.
            return max(value * factor, row.check.least)
        if value is not None:
            return value
    return row.default


def default_log_settings(values: Mapping[str, Value]) -> LogSettings:
    """The default log settings of a broker with these values by key."""
    fields: dict[str, Any] = {
        row.field: topic_default(row, values) for row in TOPIC.values() if row.field
    }
    return LogSettings(**fields)
