"""Settings of consumer groups that must fit together."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError


def load(*given: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=[f"group.consumer.{setting}" for setting in given])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            ["min.session.timeout.ms=45001"],
            "must be between group.consumer.min.session.timeout.ms and",
        ),
        (["session.timeout.ms=60001"], "must be between"),
        (["max.heartbeat.interval.ms=4999"], "must be greater than or equal to"),
        (["assignment.interval.ms=15001"], "must be between"),
        (
            [
                "max.heartbeat.interval.ms=45000",
                "heartbeat.interval.ms=45000",
            ],
            "must be greater than group.consumer.heartbeat.interval.ms",
        ),
        (["assignors=uniform,org.example.Mine"], "the assignors are uniform, range"),
        (["migration.policy=sideways"], "one of DISABLED"),
        (["regex.refresh.interval.ms=9999"], "10000"),
    ],
)
def test_what_does_not_fit(given: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(*given)


def test_the_classic_protocol_must_be_there() -> None:
    key = "group.coordinator.rebalance.protocols"
    with pytest.raises(ConfigError, match="Disabling the 'classic' protocol"):
        BrokerSettings.load(overrides=[f"{key}=consumer"])
    settings = BrokerSettings.load(overrides=[f"{key}=classic"])
    assert settings.group_coordinator_rebalance_protocols == ("classic",)


def test_what_fits() -> None:
    settings = load(
        "min.session.timeout.ms=1000",
        "session.timeout.ms=2000",
        "min.heartbeat.interval.ms=1",
        "heartbeat.interval.ms=1999",
        "assignors=range",
        "migration.policy=Upgrade",
    )
    assert settings.group_consumer_assignors == ("range",)
    assert settings.group_consumer_session_timeout_ms == 2000
