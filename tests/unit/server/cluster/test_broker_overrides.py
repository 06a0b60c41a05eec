"""Broker settings out of the tree, put in force: at the start, and at each change."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from kavka.server.cluster.broker_overrides import DynamicSettings
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.zktree import paths

OF_ALL = paths.DEFAULT_ENTITY


class Stored:
    """What `EntityConfigs` has read of brokers; `change` is a note that was followed."""

    def __init__(self) -> None:
        self.entities: dict[str, Mapping[str, str]] = {}
        self.listeners: list[object] = []

    def broker(self, broker_id: int) -> Mapping[str, str]:
        return self.entities.get(str(broker_id), {})

    def broker_defaults(self) -> Mapping[str, str]:
        return self.entities.get(OF_ALL, {})

    def on_change(self, listener: object) -> None:
        self.listeners.append(listener)

    def change(self, name: str, kind: str = paths.BROKER_CONFIGS, /, **configs: str) -> None:
        self.entities[name] = {key.replace("_", "."): text for key, text in configs.items()}
        for listener in self.listeners:
            assert callable(listener)
            listener(kind, name)


class InForce:
    def __init__(self, *overrides: str) -> None:
        self.live = LiveSettings(BrokerSettings.load(overrides=overrides))
        self.stored = Stored()
        configs: object = self.stored
        self.dynamic = DynamicSettings(self.live, configs)  # type: ignore[arg-type]
        self.changes = 0
        self.live.on_change(lambda old, new: self.count())

    def count(self) -> None:
        self.changes += 1

    @property
    def segment_bytes(self) -> int:
        return self.live.now.topic_defaults.segment_bytes


@pytest.fixture
def on(caplog: pytest.LogCaptureFixture) -> InForce:
    caplog.set_level(logging.INFO, logger="kavka.server.cluster")
    return InForce("broker.id=3", "log.segment.bytes=2000000")


def test_found_at_the_start(on: InForce) -> None:
    on.stored.entities = {"3": {"log.segment.bytes": "3000000"}, OF_ALL: {"log.roll.ms": "9"}}
    on.dynamic.apply()
    assert (on.segment_bytes, on.live.now.topic_defaults.segment_ms) == (3_000_000, 9)
    assert on.live.now.dynamic.broker == {"log.segment.bytes": "3000000"}


def test_changed_and_taken_back(on: InForce) -> None:
    on.stored.change(OF_ALL, log_segment_bytes="4000000")
    assert on.segment_bytes == 4_000_000
    on.stored.change("3", log_segment_bytes="5000000")
    assert on.segment_bytes == 5_000_000
    on.stored.change("3")
    assert on.segment_bytes == 4_000_000
    on.stored.change(OF_ALL)
    assert on.segment_bytes == 2_000_000
    assert on.changes == 4


def test_others_changes_are_none_of_this_broker(on: InForce) -> None:
    on.stored.change("4", log_segment_bytes="4000000")
    on.stored.change("3", paths.TOPIC_CONFIGS, log_segment_bytes="4000000")
    assert (on.segment_bytes, on.changes) == (2_000_000, 0)


def test_overrides_that_can_not_be_in_force_are_logged_and_left_out(
    on: InForce, caplog: pytest.LogCaptureFixture
) -> None:
    on.stored.change("3", log_segment_bytes="4000000", num_partitions="7", log_roll_ms="x")
    assert on.segment_bytes == 4_000_000
    assert on.live.now.num_partitions == 1
    assert dict(on.live.now.dynamic.broker) == {"log.segment.bytes": "4000000"}
    notified = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in notified] == ["ERROR", "ERROR"]
    assert notified[0][1].startswith("can't apply dynamic setting num.partitions: Cannot")
    assert notified[1][1].startswith("can't apply dynamic setting log.roll.ms: Invalid")


def test_what_does_not_fit_together_leaves_what_was(
    on: InForce, caplog: pytest.LogCaptureFixture
) -> None:
    on.stored.change("3", log_segment_bytes="4000000")
    on.stored.change("3", max_connections_per_ip="0", log_segment_bytes="5000000")
    assert on.segment_bytes == 4_000_000
    (record,) = caplog.records
    assert record.message.startswith("can't apply dynamic settings: max.conn")


def test_a_setting_without_effect_is_logged_once(
    on: InForce, caplog: pytest.LogCaptureFixture
) -> None:
    on.stored.change("3", log_preallocate="true", my_own="secret")
    on.stored.change("3", log_preallocate="true", my_own="secret", log_segment_bytes="4000000")
    notified = [record.message for record in caplog.records]
    assert notified == [
        "no effect: log.preallocate (segment files grow as they are written)",
        "no effect: my.own (not a setting of Apache Kafka 4.3 or of Kavka)",
    ]


def test_names_can_not_forge_lines_of_the_log(
    on: InForce, caplog: pytest.LogCaptureFixture
) -> None:
    on.stored.entities["3"] = {"my\nERROR own": "x"}
    on.dynamic.apply()
    (record,) = caplog.records
    assert "\n" not in record.message
