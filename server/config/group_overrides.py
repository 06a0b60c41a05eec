"""Configs of groups: their validation, and warnings about those without effect.

Checks, their order and messages are Apache Kafka 4.3's (`GroupConfig`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.server.config.other_resource_rows import GROUP
from kavka.server.config.settings import BrokerSettings
from kavka.server.config.topic_overrides import warnings_of
from kavka.server.config.value_types import BadValue, Value
from kavka.wire.errors import ApiError, ErrorCode

_BOUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "consumer.heartbeat.interval.ms": ("min.heartbeat.interval.ms", "max.heartbeat.interval.ms"),
    "consumer.session.timeout.ms": ("min.session.timeout.ms", "max.session.timeout.ms"),
    "consumer.assignment.interval.ms": ("min.assignment.interval.ms", "max.assignment.interval.ms"),
    "share.heartbeat.interval.ms": ("min.heartbeat.interval.ms", "max.heartbeat.interval.ms"),
    "share.session.timeout.ms": ("min.session.timeout.ms", "max.session.timeout.ms"),
    "share.record.lock.duration.ms": ("min.record.lock.duration.ms", "max.record.lock.duration.ms"),
    "share.delivery.count.limit": ("min.delivery.count.limit", "max.delivery.count.limit"),
    "share.partition.max.record.locks": (
        "min.partition.max.record.locks",
        "max.partition.max.record.locks",
    ),
    "share.assignment.interval.ms": ("min.assignment.interval.ms", "max.assignment.interval.ms"),
    "streams.heartbeat.interval.ms": ("min.heartbeat.interval.ms", "max.heartbeat.interval.ms"),
    "streams.session.timeout.ms": ("min.session.timeout.ms", "max.session.timeout.ms"),
    "streams.num.standby.replicas": ("max.standby.replicas",),
    "streams.assignment.interval.ms": ("min.assignment.interval.ms", "max.assignment.interval.ms"),
}
"""The broker settings that bound a group config, without the prefix `group.<protocol>.`."""

_PROTOCOLS: Final = ("consumer", "share", "streams")


def validate_group_configs(configs: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raises ApiError INVALID_CONFIG if a group can't have these configs on a broker with these
    settings."""
    try:
        _validate(configs, settings)
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def group_warnings(configs: Mapping[str, str]) -> list[str]:
    """Log messages about those of the valid `configs` that have no effect."""
    return warnings_of(GROUP, configs)


def _validate(configs: Mapping[str, str], settings: BrokerSettings) -> None:
    for key in configs:
        if key not in GROUP:
            raise BadValue(f"Unknown group config name: {key}")
    values = {key: GROUP[key].parse(text) for key, text in configs.items()}
    for key in _BOUNDS:
        if key in values:
            _check_bounds(key, _number(values[key]), settings)
    for protocol in _PROTOCOLS:
        _check_session(protocol, values, settings)


def _check_bounds(key: str, value: int, settings: BrokerSettings) -> None:
    protocol = key.partition(".")[0]
    for bound in _BOUNDS[key]:
        name = f"group.{protocol}.{bound}"
        limit = _number(settings.value(name))
        if bound.startswith("min.") and value < limit:
            raise BadValue(f"{key} must be greater than or equal to {name}")
        if bound.startswith("max.") and value > limit:
            raise BadValue(f"{key} must be less than or equal to {name}")


def _check_session(protocol: str, values: Mapping[str, Value], settings: BrokerSettings) -> None:
    session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
    session_ms, heartbeat_ms = (
        _number(values.get(key, settings.value(f"group.{key}"))) for key in (session, heartbeat)
    )
    if session_ms <= heartbeat_ms:
        raise BadValue(f"{session} must be greater than {heartbeat}")


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
