"""Topic configs: their validation, and the log settings that result from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kavka.log.settings import LogSettings
from kavka.server.config.dynamic_rules import check_size, check_values
from kavka.server.config.rows import Config, Status
from kavka.server.config.table import TOPIC
from kavka.server.config.topic_rows import UNCLEAN_ELECTION
from kavka.server.config.value_types import BadValue, Value, one_line, to_text
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kavka.server.config.settings import BrokerSettings


SHOWN_CHARACTERS_MAX: Final = 500
"""Characters of a value that are logged."""

_NO_TIERS: Final = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
    "remote log storage."
)


def log_settings(broker: BrokerSettings, overrides: Mapping[str, str]) -> LogSettings:
    """The log settings of a topic with these configs of its own. Raises BadValue.

    Configs that do not concern logs are ignored.
    """
    changed: dict[str, Any] = {}
    for key, text in overrides.items():
        row = TOPIC.get(key)
        if row is not None and row.field:
            changed[row.field] = row.parse(text)
    if "internal.segment.bytes" in overrides:
        row = TOPIC["internal.segment.bytes"]
        changed["segment_bytes"] = row.parse(overrides[row.name])
    return replace(broker.topic_defaults, **changed) if changed else broker.topic_defaults


def allows_unclean_election(broker: BrokerSettings, overrides: Mapping[str, str]) -> bool:
    """Whether a topic with these configs of its own may get a leader that lacks records. A value
    that is not one, which no broker accepts, allows nothing."""
    text = overrides.get(UNCLEAN_ELECTION)
    if text is None:
        return bool(broker.value(UNCLEAN_ELECTION))
    try:
        return bool(TOPIC[UNCLEAN_ELECTION].parse(text))
    except BadValue:
        return False


def validate_topic_configs(
    configs: Mapping[str, str | None],
    settings: BrokerSettings | None = None,
    *,
    are_new: bool = False,
) -> None:
    """Raises ApiError(INVALID_CONFIG) if a topic cannot have these configs. `are_new`: none of
    them is stored already; stored ones may be longer than Apache Kafka's limit.

    `settings` are the broker's, which the configs must not contradict. Messages are Kafka's where
    Kafka refuses too. `topic_warnings` has accepted configs without effect.
    """
    try:
        _validate(configs, settings, are_new=are_new)
    except BadValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _validate(
    configs: Mapping[str, str | None], settings: BrokerSettings | None, *, are_new: bool
) -> None:
    missing = [key for key, text in configs.items() if text is None]
    if missing:
        raise BadValue(f"Null value not supported for topic configs: {','.join(missing)}")
    texts = {key: text for key, text in configs.items() if text is not None}
    if are_new:
        check_values(texts.values())
    for key in configs:
        if key not in TOPIC:
            raise BadValue(f"Unknown topic config name: {key}")
    check_size(texts)
    values = {key: TOPIC[key].parse(text) for key, text in texts.items()}
    _check_lag(values, settings)
    for key, value in values.items():
        row = TOPIC[key]
        if row.status is Status.REFUSED and value != row.default:
            if key == "remote.storage.enable":
                raise BadValue(_NO_TIERS)
            raise BadValue(f"{key}={configs[key]} is not supported: {row.note}.")


def _check_lag(values: Mapping[str, Value], settings: BrokerSettings | None) -> None:
    def lag(row: Config) -> Value:
        if row.name in values:
            return values[row.name]
        return row.default if settings is None else settings.value(row.fallback[0][0])

    least = lag(TOPIC["min.compaction.lag.ms"])
    most = lag(TOPIC["max.compaction.lag.ms"])
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise BadValue(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )


def topic_warnings(configs: Mapping[str, str]) -> list[str]:
    """Log messages about those of the valid `configs` that have no effect."""
    return warnings_of(TOPIC, configs)


def warnings_of(rows: Mapping[str, Config], configs: Mapping[str, str]) -> list[str]:
    """Log messages about those of the valid `configs`, all with a row, that have no effect."""
    without_effect: dict[str, list[str]] = {}
    for key, text in configs.items():
        row = rows[key]
        value = row.parse(text)
        if row.status is Status.WARNED and value != row.default:
            shown = one_line((to_text(value) or "")[:SHOWN_CHARACTERS_MAX])
            without_effect.setdefault(row.note, []).append(f"{key}={shown}")
    return [f"no effect: {', '.join(keys)} ({note})" for note, keys in without_effect.items()]
