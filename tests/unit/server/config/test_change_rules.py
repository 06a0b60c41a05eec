"""Changes that do not fit what is there. Messages are those that Apache Kafka 4.3.1 answered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.config.change_rules import check_change
from kavka.server.config.dynamic_rules import Dynamic, effective_given, value_of
from kavka.server.config.value_types import BadValue

START = BrokerSettings.load()
REQUIREMENT = "requirement failed: "
CAUSE = "Invalid value org.apache.kafka.common.config.ConfigException: "
END = " for configuration Invalid dynamic configuration"
THREADS = "Dynamic thread count update validation failed for "


def change(configs: Mapping[str, str], start: BrokerSettings = START) -> None:
    new = value_of(effective_given(start.given, Dynamic(configs, {})))
    check_change(configs, start.value, new)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (
            {"max.connections.per.ip": "0"},
            f"{REQUIREMENT}max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set.",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1048576"},
            f"{REQUIREMENT}log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        ({"max.connections": "0"}, f"{CAUSE}Invalid max.connections 0{END}"),
        (
            {"listener.name.plaintext.max.connection.creation.rate": "0"},
            f"{CAUSE}Invalid max.connection.creation.rate 0{END}",
        ),
        (
            {"num.io.threads": "17"},
            f"{CAUSE}{THREADS}num.io.threads=17, value should not be greater than double the "
            f"current value 8{END}",
        ),
        (
            {"num.io.threads": "3"},
            f"{CAUSE}{THREADS}num.io.threads=3, value should be at least half the current value 8"
            f"{END}",
        ),
        (
            {"log.cleaner.threads": "3"},
            f"{CAUSE}Log cleaner threads cannot be increased to more than double the current "
            f"value 1{END}",
        ),
    ],
)
def test_refused(configs: dict[str, str], message: str) -> None:
    with pytest.raises(BadValue) as caught:
        change(configs)
    assert str(caught.value) == message


@pytest.mark.parametrize("threads", ["0", "1"])
def test_cleaners_are_not_halved_twice(threads: str) -> None:
    start = BrokerSettings.load(overrides=["log.cleaner.threads=4"])
    with pytest.raises(BadValue, match="Log cleaner threads"):
        change({"log.cleaner.threads": threads}, start)
    change({"log.cleaner.threads": "2"}, start)


@pytest.mark.parametrize(
    "configs",
    [
        {"num.io.threads": "16", "num.network.threads": "2", "log.cleaner.threads": "2"},
        {"num.io.threads": "4"},
        {"max.connections": "1", "listener.name.plaintext.max.connections": "1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:3"},
        {"my.own": "0"},
        {},
    ],
)
def test_allowed(configs: dict[str, str]) -> None:
    change(configs)
