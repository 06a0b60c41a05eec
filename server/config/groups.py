"""Configs of consumer groups: which a group may be given.

Refusals, their order and words are Apache Kafka 4.3's (`GroupConfig`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.server.config.other_rows import GROUP
from kavka.server.config.rows import Status
from kavka.server.config.settings import BrokerSettings
from kavka.server.config.values import BadValue, Value
from kavka.wire.errors import ApiError, ErrorCode

_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_SESSION: Final = "consumer.session.timeout.ms"
_ASSIGNMENT: Final = "consumer.assignment.interval.ms"


def validate_group_configs(configs: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raises ApiError INVALID_CONFIG if a group can't have these configs with these settings of
    the broker."""
    try:
        _validate(configs, settings)
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _validate(configs: Mapping[str, str], settings: BrokerSettings) -> None:
    for key in configs:
        if key not in GROUP:
            raise BadValue(f"Unknown group config name: {key}")
    values = {key: GROUP[key].parse(text) for key, text in configs.items()}
    for key in (_HEARTBEAT, _SESSION, _ASSIGNMENT):
        if key in values:
            _check_bounds(key, values[key], settings)
    session_ms, heartbeat_ms = (
        _number(values.get(key, settings.value(f"group.{key}"))) for key in (_SESSION, _HEARTBEAT)
    )
    if session_ms <= heartbeat_ms:
        raise BadValue(f"{_SESSION} must be greater than {_HEARTBEAT}")
    for key in values:
        if GROUP[key].status is not Status.HONOURED:
            raise BadValue(f"{key} is not supported: {GROUP[key].note}.")


def _check_bounds(key: str, value: Value, settings: BrokerSettings) -> None:
    protocol, _, name = key.partition(".")
    least, most = (f"group.{protocol}.{bound}.{name}" for bound in ("min", "max"))
    if _number(value) < _number(settings.value(least)):
        raise BadValue(f"{key} must be greater than or equal to {least}")
    if _number(value) > _number(settings.value(most)):
        raise BadValue(f"{key} must be less than or equal to {most}")


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
