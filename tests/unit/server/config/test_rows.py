"""The table against Apache Kafka's own definitions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.server.config import rows
from kavka.server.config.rows import Config, Mode, Scope, Status
from kavka.server.config.table import TOPIC, broker_rows
from kavka.server.config.validators import (
    AtLeast,
    Between,
    Items,
    Limit,
    NonEmpty,
    OneOf,
    Required,
    ThrottledReplicas,
    Validator,
)
from kavka.server.config.value_types import BadValue, Type, Value, parse, to_text

# Kafka checks these after parsing, and so documents no range; ours is the range that it enforces.
CHECKED_LATER = {
    "log.retention.ms": "",
    "log.retention.minutes": "",
    "log.retention.hours": "",
    "log.roll.ms": "[1,...]",
    "log.roll.jitter.ms": "[0,...]",
    "log.flush.interval.ms": "[0,...]",
    "offsets.topic.compression.codec": "[0,...,4]",
}
# Kafka prints these validators in words of their own, or with every version ever made.
PRINTED_OTHERWISE = {
    "authorizer.class.name",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.protocol.version",
    "log.message.format.version",
}

# Kafka defines these apart from the settings of the start.
DYNAMIC_ONLY = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
FROM_THE_START_ONLY = {"listeners", "listener.security.protocol.map"}
"""Kafka opens and closes listeners while it runs, and Kavka refuses to."""

KAVKAS_OWN = "kavka."
OF_KAFKA_3_9 = ("message.downconversion.enable",)
"""Topics' settings that Kafka 4 has no more."""


def kafka_range(check: Validator | None) -> str | None:
    """A check as Kafka prints it."""
    match check:
        case AtLeast(least) | Required(least):
            return f"[{least},...]"
        case Between(least, most, None):
            return f"[{least},...,{most}]"
        case Between(least, most, also):
            return f"[{least},...,{most}] or {also}"
        case OneOf(words, any_case):
            return ("(case insensitive) " if any_case else "") + f"[{', '.join(words)}]"
        case Items(_, words):
            return f"[{', '.join(words)}]" if words else ""
        case NonEmpty():
            return "non-empty string"
        case ThrottledReplicas():
            return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        case Limit():
            return ""
    return None


def shown(row: Config, range_: str | None, *, gone: bool = False) -> list[str | None]:
    return [
        row.scope.value,
        row.name,
        row.type.name,
        "[hidden]" if row.type is Type.PASSWORD and row.default else to_text(row.default),
        range_,
        row.importance.name,
        "false" if gone else str(row.internal).lower(),
        "read-only"
        if row.scope is Scope.TOPIC
        else row.dynamic.value,  # documented for brokers only
    ]


def test_rows_are_those_of_kafka_4(
    recorded: Callable[[str], list[list[str | None]]],
) -> None:
    expected = {
        (fields[0], fields[1]): fields
        for fields in recorded("settings.tsv")
        if fields[0] != "fallback"
    }
    gone = {fields[1] for fields in recorded("settings-3.9.2.tsv")}
    ours = {}
    for row in [*broker_rows(), *TOPIC.values()]:
        if row.name in gone | DYNAMIC_ONLY or row.name.startswith((KAVKAS_OWN, *OF_KAFKA_3_9)):
            continue
        key = (row.scope.value, row.name)
        range_ = kafka_range(row.check)
        if row.name in PRINTED_OTHERWISE:
            range_ = expected[key][4]
        elif row.name in CHECKED_LATER:
            assert expected[key][4] is None
            assert range_ == CHECKED_LATER[row.name]
            range_ = None
        ours[key] = shown(row, range_)
        if row.name in FROM_THE_START_ONLY:
            assert ours[key][-1] == "read-only"
            ours[key][-1] = "per-broker"
    assert ours == expected


def test_rows_for_names_that_only_kafka_3_9_has(
    recorded: Callable[[str], list[list[str | None]]],
) -> None:
    rows = {row.name: row for row in broker_rows()}
    for expected in recorded("settings-3.9.2.tsv"):
        row = rows[str(expected[1])]
        range_ = expected[4] if row.name in PRINTED_OTHERWISE else kafka_range(row.check)
        expected[6] = "false"
        assert shown(row, range_, gone=True) == expected
        assert row.internal  # a current Kafka does not list it, and nor do we


def test_topic_settings_fall_back_as_in_kafka(
    recorded: Callable[[str], list[list[str | None]]],
) -> None:
    expected = {
        fields[1]: fields[2] for fields in recorded("settings.tsv") if fields[0] == "fallback"
    }
    ours = {
        row.name: " ".join(f"{key}*{factor}" for key, factor in row.fallback)
        for row in TOPIC.values()
        if row.fallback and not row.name.startswith((KAVKAS_OWN, *OF_KAFKA_3_9))
    }
    assert ours == expected


def test_every_row_that_is_not_honoured_says_why() -> None:
    for row in [*broker_rows(), *TOPIC.values()]:
        assert bool(row.note) == (row.status is not Status.HONOURED), row.name
        assert not row.field or row.status is Status.HONOURED, row.name


def test_a_default_of_topics_is_honoured_as_the_topic_setting_is() -> None:
    rows = {row.name: row for row in broker_rows()}
    for topic in TOPIC.values():
        for key, _ in topic.fallback:
            if not rows[key].field:  # else the broker has a use of its own for it
                assert rows[key].status is topic.status, key
                assert rows[key].note == topic.note, key


def test_defaults_are_allowed() -> None:
    for row in [*broker_rows(), *TOPIC.values()]:
        text = to_text(row.default)
        if text is not None and row.name != "node.id":
            assert row.parse(text) == row.default, row.name


def test_texts_are_sentences() -> None:
    for row in [*broker_rows(), *TOPIC.values()]:
        assert row.explanation.endswith("."), row.name
        assert row.explanation[0].isupper(), row.name
        assert row.allowed, row.name


def test_ranges_in_words() -> None:
    rows = {row.name: row for row in [*broker_rows(), *TOPIC.values()]}
    assert rows["num.partitions"].allowed == "a whole number from 1 to 2147483647"
    assert rows["compression.gzip.level"].allowed == "a whole number from 1 to 9, or -1"
    assert rows["broker.id"].allowed == "a whole number from -2147483648 to 2147483647"
    assert rows["min.cleanable.dirty.ratio"].allowed == "a number, 0 to 1"
    assert rows["auto.create.topics.enable"].allowed == "true or false"
    assert rows["message.timestamp.type"].allowed == "a text, one of CreateTime, LogAppendTime"
    assert rows["listeners"].allowed == "a list separated by commas, at least one item"
    assert rows["log.retention.hours"].allowed == (
        "a whole number from -2147483648 to 2147483647, at least 1, or -1 for no limit"
    )


def test_read_only_by_default() -> None:
    rows = {row.name: row for row in broker_rows()}
    assert rows["log.dirs"].dynamic is Mode.READ_ONLY
    assert rows["log.retention.ms"].dynamic is Mode.CLUSTER_WIDE
    assert rows["ssl.keystore.location"].dynamic is Mode.PER_BROKER


def test_long_texts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of items takes some tens of milliseconds, and a change asks for it often."""
    read: list[str] = []

    def noted(name: str, type_: Type, text: str) -> Value:
        read.append(text)
        return parse(name, type_, text)

    monkeypatch.setattr(rows, "parse", noted)
    row = TOPIC["leader.replication.throttled.replicas"]
    texts = [",".join(f"{partition}:{broker}" for partition in range(999)) for broker in range(3)]
    expected = [tuple(text.split(",")) for text in texts]
    for _ in range(10):
        assert row.parse(texts[0]) == expected[0]
        assert row.parse(texts[1]) == expected[1]
    assert read == texts[:2]
    assert row.parse(texts[2]) == expected[2]
    assert row.parse(texts[0]) == expected[0]
    assert len(read) == 4, "no more are kept"
    for _ in range(2):
        with pytest.raises(BadValue, match="must be the literal"):
            row.parse(texts[0] + ",x")


def test_items_count_once_where_kafka_says_so() -> None:
    rows = {row.name: row for row in [*broker_rows(), *TOPIC.values()]}
    for name in ("cleanup.policy", "log.cleanup.policy"):
        assert rows[name].parse("delete,compact,delete") == ("delete", "compact")
    throttled = rows["leader.replication.throttled.replicas"]
    assert throttled.parse("0:1,0:1") == ("0:1", "0:1")
