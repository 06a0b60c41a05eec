from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kavka.log.settings import LogSettings
from kavka.server.config import (
    BrokerSettings,
    log_settings,
    topic_warnings,
    validate_topic_configs,
)
from kavka.server.config.rows import Config, Status
from kavka.server.config.table import TOPIC
from kavka.server.config.topic_overrides import warnings_of
from kavka.server.config.validators import Items, OneOf
from kavka.server.config.value_types import BadValue, Type, to_text
from kavka.wire.errors import ApiError, ErrorCode


def answer(configs: dict[str, str | None]) -> list[str | None]:
    try:
        validate_topic_configs(configs)
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_CONFIG
        return ["InvalidConfigurationException", error.message]
    return ["ok"]


def test_topics_are_refused_in_kafka_s_words(
    recorded: Callable[[str], list[list[str | None]]],
) -> None:
    lines = recorded("topics.tsv")
    assert len(lines) > 60
    for given, *expected in lines:
        pairs = [config.partition("=") for config in str(given).split("|")]
        configs = {key: text if equals else None for key, equals, text in pairs}
        if "message.downconversion.enable" in configs:
            expected = ["ok"]  # of Kafka 3.9: it is Kafka 4 that says so, which has it no more
        assert answer(configs) == expected, given


def test_what_is_safe_to_leave_out_is_reported() -> None:
    configs = {
        "preallocate": "true",
        "local.retention.ms": "60000",
        "local.retention.bytes": "1",
        "segment.bytes": "2000000",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    }
    validate_topic_configs(configs)
    assert topic_warnings(configs) == [
        "no effect: preallocate=true (segment files grow as they are written)",
        "no effect: local.retention.ms=60000, local.retention.bytes=1 (there is no tiered storage)",
    ]


def test_long_values_do_not_fill_the_log() -> None:
    rows = {
        "some.list": TOPIC["follower.replication.throttled.replicas"]._replace(
            status=Status.WARNED, note="it is for a test"
        )
    }
    replicas = ",".join(f"{partition}:1" for partition in range(100_000))
    [warning] = warnings_of(rows, {"some.list": replicas})
    assert warning.startswith("no effect: some.list=0:1,1:1,2:1,")
    assert len(warning) < 700


def test_log_settings_without_configs_are_the_broker_s() -> None:
    broker = BrokerSettings.load(overrides=["log.segment.bytes=2000000", "message.max.bytes=5"])
    settings = log_settings(broker, {})
    assert settings is broker.topic_defaults
    assert settings.segment_bytes == 2_000_000
    assert settings.max_message_bytes == 5


def test_configs_of_a_topic_stand_above_the_broker_s() -> None:
    broker = BrokerSettings.load(overrides=["log.segment.bytes=2000000"])
    settings = log_settings(broker, {"segment.bytes": " 3000000 ", "preallocate": "true"})
    assert settings == dataclasses.replace(broker.topic_defaults, segment_bytes=3_000_000)


def test_segments_for_tests_may_be_tiny() -> None:
    broker = BrokerSettings.load()
    configs = {"internal.segment.bytes": "100", "segment.bytes": "3000000"}
    assert log_settings(broker, configs).segment_bytes == 100


def test_names_that_are_not_known_leave_a_log_alone() -> None:
    broker = BrokerSettings.load()
    assert log_settings(broker, {"from.the.future": "1"}) is broker.topic_defaults


def test_each_field_of_a_log_has_one_row() -> None:
    named = sorted(row.field for row in TOPIC.values() if row.field)
    assert named == sorted(field.name for field in dataclasses.fields(LogSettings))
    for row in TOPIC.values():
        assert row.field in ("", row.name.replace(".", "_"))


def sample(row: Config) -> str:
    """A value that is not the default."""
    if isinstance(row.check, OneOf | Items) and row.check.words:
        return next(word for word in row.check.words if word not in (to_text(row.default) or ""))
    if row.type is Type.BOOLEAN:
        return "false" if row.default else "true"
    return next(text for text in ("1048577", "7", "0.25", "3:1") if _fits(row, text))


def _fits(row: Config, text: str) -> bool:
    try:
        row.parse(text)
    except BadValue:
        return False
    return True


def test_every_field_of_a_log_takes_its_topic_s_value() -> None:
    broker = BrokerSettings.load()
    for row in TOPIC.values():
        if row.field:
            text = sample(row)
            value = getattr(log_settings(broker, {row.name: text}), row.field)
            assert value == row.parse(text) != row.default, row.name
