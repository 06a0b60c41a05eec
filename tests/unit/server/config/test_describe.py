"""DescribeConfigs against what Apache Kafka 4.3.1 answered with the same settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import chain

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.config.describe import (
    ConfigEntry,
    Source,
    broker_default_entries,
    broker_entries,
    topic_entries,
)
from kavka.server.config.dynamic_rules import Dynamic
from kavka.server.config.sources import gather
from kavka.server.config.value_types import Type

Fields = list[str | None]
SOURCES = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
}
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "set": {
        "retention.ms": "60000",
        "cleanup.policy": "compact,delete",
        "segment.bytes": "2000000",
        "min.insync.replicas": "1",
        "leader.replication.throttled.replicas": "*",
    },
}
# Kafka 4 gives a new cluster this one itself (KIP-966).
FROM_THE_BEGINNING = {"min.insync.replicas": "1"}
ALTERED = Dynamic(
    {"log.retention.ms": "80000000", "message.max.bytes": "1500000"},
    {
        **FROM_THE_BEGINNING,
        "log.segment.bytes": "5000000",
        "message.max.bytes": "1600000",
        "log.roll.ms": "70000000",
        "some.unknown.dynamic": "5",
    },
)


def fields(resource: str, entry: ConfigEntry) -> Fields:
    synonyms = [
        [SOURCES[synonym.source], synonym.name, synonym.value] for synonym in entry.synonyms
    ]
    return [
        resource,
        entry.name,
        entry.value,
        SOURCES[entry.source],
        str(entry.read_only).lower(),
        str(entry.is_sensitive).lower(),
        entry.type.name,
        *chain.from_iterable(synonyms),
    ]


def as_kafka_s(entry: ConfigEntry) -> ConfigEntry:
    """Listeners are opened and closed while Kafka runs; Kavka refuses to, and says so."""
    if entry.name not in ("listeners", "listener.security.protocol.map"):
        return entry
    assert entry.read_only
    return entry._replace(read_only=False)


def all_fields(start: BrokerSettings, dynamic: Dynamic) -> list[Fields]:
    settings = dataclasses.replace(start, dynamic=dynamic)
    resources: list[tuple[str, Iterable[ConfigEntry]]] = [
        (f"TOPIC:{topic}", topic_entries(settings, configs)) for topic, configs in TOPICS.items()
    ]
    of_kafka = [entry for entry in broker_entries(settings) if not entry.name.startswith("kavka.")]
    resources.append(("BROKER:1", [as_kafka_s(entry) for entry in of_kafka]))
    resources.append(("BROKER:", broker_default_entries(settings)))
    return [fields(resource, entry) for resource, entries in resources for entry in entries]


@pytest.fixture
def plain(properties: Callable[[str], bytes]) -> BrokerSettings:
    return BrokerSettings.load(properties("plain.properties"))


@pytest.fixture
def changed(plain: BrokerSettings, properties: Callable[[str], bytes]) -> BrokerSettings:
    """Holds secrets too, with which Kavka itself would not start."""
    given = gather(properties("changed.properties"), "", {}, ["broker.id=1"])
    return dataclasses.replace(plain, given=given)


def test_kafka_s_own_settings(
    plain: BrokerSettings, recorded: Callable[[str], list[Fields]]
) -> None:
    expected = recorded("plain.tsv")
    assert len(expected) == 407
    assert all_fields(plain, Dynamic({}, FROM_THE_BEGINNING)) == expected


def test_synonyms_and_secrets(
    changed: BrokerSettings, recorded: Callable[[str], list[Fields]]
) -> None:
    ours = all_fields(changed, Dynamic({}, FROM_THE_BEGINNING))
    before = recorded("plain.tsv")
    assert [line for line in ours if line not in before] == recorded("changed.tsv")


def test_changed_while_running(
    changed: BrokerSettings, recorded: Callable[[str], list[Fields]]
) -> None:
    before = all_fields(changed, Dynamic({}, FROM_THE_BEGINNING))
    ours = all_fields(changed, ALTERED)
    assert [line for line in ours if line not in before] == recorded("altered.tsv")


def test_only_the_names_that_were_asked_for(plain: BrokerSettings) -> None:
    names = ["segment.bytes", "num.partitions", "what"]
    assert [entry.name for entry in topic_entries(plain, {}, names=names)] == ["segment.bytes"]
    assert [entry.name for entry in broker_entries(plain, names=names)] == ["num.partitions"]
    altered = dataclasses.replace(plain, dynamic=ALTERED)
    assert broker_default_entries(altered, names=names) == []
    assert len(topic_entries(plain, {}, names=[])) == 33


def test_internal_settings_are_described_once_set(plain: BrokerSettings) -> None:
    assert "internal.segment.bytes" not in [entry.name for entry in topic_entries(plain, {})]
    shown = {entry.name: entry for entry in topic_entries(plain, {"internal.segment.bytes": "9"})}
    assert shown["internal.segment.bytes"].value == "9"


def test_a_throttled_rate_is_described_without_a_default(plain: BrokerSettings) -> None:
    throttle = "leader.replication.throttled.rate"
    assert list(broker_entries(plain, names=[throttle])) == []
    throttled = dataclasses.replace(plain, dynamic=Dynamic({throttle: "1000"}, {}))
    (entry,) = broker_entries(throttled, names=[throttle])
    assert (entry.value, entry.source) == ("1000", Source.DYNAMIC_BROKER)
    assert len(entry.synonyms) == 1, "as kafka-configs shows it after kafka-reassign-partitions"


def test_a_topic_s_unknown_config_is_not_shown(plain: BrokerSettings) -> None:
    (entry,) = topic_entries(plain, {"from.the.future": "x"}, names=["from.the.future"])
    assert entry.value is None
    assert entry.is_sensitive
    assert entry.type is Type.UNKNOWN
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [(None, Source.TOPIC)]


def test_documentation_says_what_is_missing(plain: BrokerSettings) -> None:
    docs = {entry.name: entry.documentation for entry in topic_entries(plain, {})}
    assert docs["local.retention.ms"].endswith("No effect: there is no tiered storage.")
    assert "No effect" not in docs["segment.bytes"]
