"""Configs of consumer groups; the words are those that Apache Kafka 4.3.1 was recorded to say."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.config.group_overrides import group_warnings, validate_group_configs
from kavka.wire.errors import ApiError, ErrorCode

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def load(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=overrides)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"no.such": "1"}, "Unknown group config name: no.such"),
        (
            {SESSION: "x"},
            f"Invalid value x for configuration {SESSION}: Not a number of type INT",
        ),
        (
            {SESSION: "44999"},
            f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {SESSION: "60001"},
            f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {HEARTBEAT: "4999", SESSION: "1"},
            f"{HEARTBEAT} must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {HEARTBEAT: "15001"},
            f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {ASSIGNMENT: "15001"},
            f"{ASSIGNMENT} must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            {"share.session.timeout.ms": "60001"},
            "share.session.timeout.ms must be less than or equal to "
            "group.share.max.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
        (
            {"share.auto.offset.reset": "never"},
            "Invalid value never for configuration share.auto.offset.reset: Invalid value `never` "
            "for configuration share.auto.offset.reset. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_what_a_group_can_not_have(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        validate_group_configs(configs, load())
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_what_a_group_can_have() -> None:
    validate_group_configs({}, load())
    validate_group_configs({SESSION: "60000", HEARTBEAT: "15000", ASSIGNMENT: "0"}, load())


def test_the_session_is_longer_than_the_time_between_heartbeats() -> None:
    settings = load(
        "group.consumer.min.session.timeout.ms=6000",
        "group.consumer.max.heartbeat.interval.ms=50000",
        "group.consumer.heartbeat.interval.ms=7000",
    )
    for configs in ({SESSION: "7000"}, {HEARTBEAT: "45000"}, {SESSION: "8000", HEARTBEAT: "8000"}):
        with pytest.raises(ApiError, match="must be greater than consumer.heartbeat.interval.ms"):
            validate_group_configs(configs, settings)
    validate_group_configs({SESSION: "7001"}, settings)


def test_accepted_settings_without_effect_are_reported() -> None:
    of_share = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "5000"}
    configs = {**of_share, SESSION: "50000"}
    validate_group_configs(configs, load())
    assert group_warnings(configs) == [
        "no effect: share.session.timeout.ms=50000 (share groups and streams groups are not served)"
    ]


def test_bounds_of_other_protocols_are_the_broker_s() -> None:
    settings = load("group.share.max.session.timeout.ms=50000")
    with pytest.raises(ApiError, match="must be less than or equal to group.share.max.session"):
        validate_group_configs({"share.session.timeout.ms": "50001"}, settings)
    validate_group_configs({"share.session.timeout.ms": "50000"}, settings)
