"""AlterConfigs: what is set, what goes back to its default, and what is refused."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import NEVER_ANSWERED_S, Cases, Ground, Script, Topic, Values
from kavka.compat_tests.raw.configs import (
    BROKER,
    GROUP,
    LOGGER,
    SUBSCRIPTION,
    TOPIC,
    altering,
    described,
    in_force,
    resource,
)
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("AlterConfigs")

PLAIN = Topic("plain", shared=True)
OWN = Topic("own", configs={"retention.ms": "60000", "segment.bytes": "2000000"})
MISSING = "AlterConfigs-no-such"


@CASES.case(topics=[OWN])
def all_is_replaced(on: Ground) -> Script:
    change = resource(TOPIC, on.topic, ("retention.ms", "70000"), ("flush.ms", "1234"))
    yield on.ask(**altering(change))
    yield from in_force(on, TOPIC, on.topic, "flush.ms", "1234")
    yield described(on, TOPIC, on.topic, "retention.ms", "segment.bytes", "flush.ms")


@CASES.case(topics=[OWN])
def nothing_is_left(on: Ground) -> Script:
    yield on.ask(**altering(resource(TOPIC, on.topic)))
    yield from in_force(on, TOPIC, on.topic, "segment.bytes", "1073741824")
    yield described(on, TOPIC, on.topic, "retention.ms", "segment.bytes")


@CASES.case(topics=[OWN])
def only_validated(on: Ground) -> Script:
    change = resource(TOPIC, on.topic, ("retention.ms", "70000"))
    yield on.ask(**altering(change, validate_only=True))
    yield described(on, TOPIC, on.topic, "retention.ms", "segment.bytes")


@CASES.case(topics=[OWN])
def what_is_refused_changes_nothing(on: Ground) -> Script:
    change = resource(TOPIC, on.topic, ("flush.ms", "70000"), ("segment.bytes", "1"))
    yield on.ask(**altering(change))
    yield described(on, TOPIC, on.topic, "retention.ms", "segment.bytes", "flush.ms")


@CASES.case(topics=[OWN, Topic("other")])
def one_is_refused_and_one_is_not(on: Ground) -> Script:
    bad = resource(TOPIC, on.topic, ("segment.bytes", "1"))
    good = resource(TOPIC, on.name("other"), ("flush.ms", "4321"))
    yield on.ask(**altering(bad, good))
    yield from in_force(on, TOPIC, on.name("other"), "flush.ms", "4321")
    yield described(on, TOPIC, on.topic, "segment.bytes")


REFUSED: dict[str, list[tuple[str, str | None]]] = {
    "an unknown config": [("no.such", "1")],
    "the name of a broker's config": [("log.retention.ms", "1")],
    "a config without a name": [("", "1")],
    "a null value": [("retention.ms", None)],
    "null values": [("retention.ms", None), ("flush.ms", "1"), ("segment.ms", None)],
    "a config twice": [("retention.ms", "1"), ("retention.ms", "2")],
    "a config twice and a null": [("retention.ms", "1"), ("retention.ms", None)],
    "a number that is none": [("retention.ms", "x")],
    "a number that is too small": [("retention.ms", "-2")],
    "a number that is too big for its type": [("segment.bytes", "2147483648")],
    "an empty number": [("retention.ms", "")],
    "a bool that is none": [("preallocate", "yes")],
    "a word that is none": [("compression.type", "rar")],
    "an item that is none": [("cleanup.policy", "delete,keep")],
    "an empty item": [("cleanup.policy", "delete,")],
    "a level that is none": [("compression.gzip.level", "10")],
    "a ratio above 1": [("min.cleanable.dirty.ratio", "1.5")],
    "throttled replicas that are none": [("leader.replication.throttled.replicas", "1")],
    "lags that contradict": [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
    "tiered storage": [("remote.storage.enable", "true")],
}
for name, configs in REFUSED.items():

    def refused(on: Ground, configs: list[tuple[str, str | None]] = configs) -> dict[str, Any]:
        return altering(resource(TOPIC, on.topic, *configs))

    CASES.add(name, refused, topics=[PLAIN])

VALIDATED: dict[str, list[tuple[str, str | None]]] = {
    "a number with spaces": [("retention.ms", " 60000 ")],
    "a number with a sign": [("retention.ms", "+60000")],
    "a list twice the same": [("cleanup.policy", "delete,delete")],
    "an empty list": [("cleanup.policy", "")],
    "a bool in capitals": [("preallocate", "TRUE")],
    "min in sync beyond the replicas": [("min.insync.replicas", "9")],
}
for name, configs in VALIDATED.items():

    def validated(on: Ground, configs: list[tuple[str, str | None]] = configs) -> Values:
        return altering(resource(TOPIC, on.topic, *configs), validate_only=True)

    CASES.add(name, validated, topics=[PLAIN])


@CASES.case(topics=[])
def an_unknown_topic(on: Ground) -> Values:
    return altering(resource(TOPIC, on.facts.prefix + MISSING, ("retention.ms", "1")))


@CASES.case(topics=[])
def a_bad_value_for_an_unknown_topic(on: Ground) -> Values:
    return altering(resource(TOPIC, on.facts.prefix + MISSING, ("retention.ms", "x")))


for name in ("", ".", "a b", "x" * 250):

    def badly_named(on: Ground, name: str = name) -> Values:
        return altering(resource(TOPIC, name, ("retention.ms", "1")))

    CASES.add(f"a topic named {name[:9]!r}", badly_named, topics=[])

for kind in (0, 1, 3, LOGGER, 64, 127, -1):

    def unknown_kind(on: Ground, kind: int = kind) -> Values:
        return altering(resource(kind, str(on.broker_id), ("root", "INFO")))

    CASES.add(f"kind {kind}", unknown_kind, topics=[])

OF_BROKER: dict[str, list[tuple[str, str | None]]] = {
    "a broker's read-only config": [("num.partitions", "3")],
    "a broker's config in hours": [("log.retention.hours", "3")],
    "a broker's null": [("log.retention.ms", None)],
    "a broker's number that is none": [("log.retention.ms", "x")],
    "a broker's retention of 0": [("log.retention.ms", "0")],
    "a broker's segments too small": [("log.segment.bytes", "5")],
    "a certificate for all listeners": [("ssl.keystore.location", "/x")],
}
for name, configs in OF_BROKER.items():

    def of_broker(on: Ground, configs: list[tuple[str, str | None]] = configs) -> Values:
        return altering(resource(BROKER, str(on.broker_id), *configs))

    CASES.add(name, of_broker, topics=[])


@CASES.case(topics=[])
def a_broker_s_config_only_validated(on: Ground) -> Script:
    change = resource(BROKER, str(on.broker_id), ("log.segment.bytes", "5000000"))
    yield on.ask(**altering(change, validate_only=True))
    yield described(on, BROKER, str(on.broker_id), "log.segment.bytes")


@CASES.case(topics=[])
def a_broker_s_config_and_back(on: Ground) -> Script:
    broker = str(on.broker_id)
    yield on.ask(**altering(resource(BROKER, broker, ("log.index.interval.bytes", "5000"))))
    yield from in_force(on, BROKER, broker, "log.index.interval.bytes", "5000")
    yield on.ask(**altering(resource(BROKER, broker)))
    yield from in_force(on, BROKER, broker, "log.index.interval.bytes", "4096")


for name in ("7", "x", "-1", "99999999999"):

    def other_broker(on: Ground, name: str = name) -> Values:
        return altering(resource(BROKER, name, ("log.retention.ms", "1")))

    CASES.add(f"a broker named {name!r}", other_broker, topics=[])


@CASES.case(topics=[])
def a_group_without_a_name(on: Ground) -> Values:
    return altering(resource(GROUP, "", ("consumer.session.timeout.ms", "50000")))


@CASES.case(topics=[])
def an_unknown_config_of_a_group(on: Ground) -> Values:
    return altering(resource(GROUP, "group", ("no.such", "50000")))


@CASES.case(topics=[])
def a_bad_config_of_a_group(on: Ground) -> Values:
    return altering(resource(GROUP, "group", ("consumer.session.timeout.ms", "x")))


@CASES.case(topics=[])
def a_config_of_a_group(on: Ground) -> Values:
    change = resource(GROUP, "group", ("consumer.session.timeout.ms", "50000"))
    return altering(change, validate_only=True)


@CASES.case(topics=[])
def nothing_of_a_group(on: Ground) -> Values:
    return altering(resource(GROUP, "group"))


@CASES.case(topics=[])
def a_subscription_without_a_name(on: Ground) -> Values:
    return altering(resource(SUBSCRIPTION, "", ("interval.ms", "1000")))


@CASES.case(topics=[])
def an_unknown_config_of_a_subscription(on: Ground) -> Values:
    return altering(resource(SUBSCRIPTION, "sub", ("no.such", "1000")))


@CASES.case(topics=[])
def a_config_of_a_subscription(on: Ground) -> Values:
    return altering(resource(SUBSCRIPTION, "sub", ("interval.ms", "1000")), validate_only=True)


@CASES.case(topics=[PLAIN])
def a_resource_twice(on: Ground) -> Script:
    altered = resource(TOPIC, on.topic, ("retention.ms", "1"))
    yield on.ask(**altering(altered, altered, validate_only=True), within_s=NEVER_ANSWERED_S)


@CASES.case(topics=[])
def nothing(on: Ground) -> Values:
    return altering()


add_frames(
    CASES,
    lambda on: altering(resource(TOPIC, on.topic, ("flush.ms", "9")), validate_only=True),
    topics=[PLAIN],
)
