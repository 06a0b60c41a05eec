"""DescribeConfigs: topics, this broker, what all brokers have, loggers, and what there is not."""

from __future__ import annotations

from itertools import product
from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Topic, Values
from kavka.compat_tests.raw.configs import (
    BROKER,
    BROKER_KEYS,
    GROUP,
    LOGGER,
    SUBSCRIPTION,
    TOPIC,
    UNKNOWN,
    described_resource,
)
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("DescribeConfigs")

PLAIN = Topic("plain", shared=True)
SET = Topic(
    "set",
    shared=True,
    configs={
        "cleanup.policy": "compact,delete",
        "retention.ms": "60000",
        "segment.bytes": "2000000",
        "max.message.bytes": "500000",
        "preallocate": "false",
        "min.cleanable.dirty.ratio": "0.25",
        "leader.replication.throttled.replicas": "*",
    },
)
SOME = ["cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "flush.ms"]
INDEX = ["min.cleanable.dirty.ratio", "leader.replication.throttled.replicas", "preallocate"]
OF_BROKER = ["num.partitions", "log.retention.ms", "log.retention.hours", "message.max.bytes"]


def asking(*resources: Any, synonyms: bool = True, documentation: bool = False) -> dict[str, Any]:
    return {
        "resources": list(resources),
        "include_synonyms": synonyms,
        "include_documentation": documentation,
    }


for topic, synonyms, documentation in product((PLAIN, SET), (False, True), (False, True)):
    with_synonyms = " with synonyms" if synonyms else ""
    with_documentation = " with documentation" if documentation else ""

    def some(on: Ground, synonyms: bool = synonyms, documentation: bool = documentation) -> Values:
        resource = described_resource(TOPIC, on.topic, [*SOME, *INDEX])
        return asking(resource, synonyms=synonyms, documentation=documentation)

    CASES.add(
        f"a {topic.label} topic{with_synonyms}{with_documentation}",
        some,
        since=3 if documentation else 1 if synonyms else 0,
        topics=[topic],
    )


@CASES.case(since=1, topics=[PLAIN])
def all_of_a_topic(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic))


@CASES.case(since=1, topics=[SET])
def all_of_a_topic_that_has_some_of_its_own(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic))


@CASES.case(since=1, topics=[PLAIN])
def no_keys(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic, []), synonyms=False)


@CASES.case(topics=[PLAIN])
def a_key_that_there_is_not(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic, ["no.such.key"]))


@CASES.case(topics=[PLAIN])
def a_key_twice(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic, ["flush.ms", "no.such", "flush.ms"]))


@CASES.case(topics=[PLAIN])
def a_key_of_the_broker_asked_of_a_topic(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.topic, ["log.retention.ms", "num.partitions"]))


@CASES.case(topics=[PLAIN])
def a_topic_twice(on: Ground) -> Values:
    return asking(
        described_resource(TOPIC, on.topic, ["flush.ms"]),
        described_resource(TOPIC, on.topic, ["segment.ms"]),
    )


@CASES.case(topics=[])
def an_unknown_topic(on: Ground) -> Values:
    return asking(described_resource(TOPIC, on.facts.prefix + "DescribeConfigs-no-such"))


@CASES.case(topics=[PLAIN])
def unknown_topics_beside_a_known_one(on: Ground) -> Values:
    missing = on.facts.prefix + "DescribeConfigs-no-such"
    return asking(
        described_resource(TOPIC, missing),
        described_resource(TOPIC, on.topic, ["flush.ms"]),
        described_resource(TOPIC, ""),
    )


for name in ("", ".", "..", "a b", "ä", "x" * 250):

    def badly_named(on: Ground, name: str = name) -> Values:
        return asking(described_resource(TOPIC, name))

    CASES.add(f"a topic named {name[:9]!r}", badly_named, topics=[])


@CASES.case(since=1, topics=[])
def the_broker(on: Ground) -> Values:
    return asking(described_resource(BROKER, str(on.broker_id), BROKER_KEYS), documentation=True)


@CASES.case(topics=[])
def some_of_the_broker(on: Ground) -> Values:
    return asking(described_resource(BROKER, str(on.broker_id), OF_BROKER))


@CASES.case(topics=[])
def keys_of_topics_asked_of_the_broker(on: Ground) -> Values:
    return asking(
        described_resource(BROKER, str(on.broker_id), ["retention.ms", "max.message.bytes"])
    )


@CASES.case(topics=[])
def what_all_brokers_have(on: Ground) -> Values:
    return asking(described_resource(BROKER, "", OF_BROKER))


for name in ("2", "-1", "x", " 1", "1 ", "1.0", "1_0", "9999999999", "99999999999"):

    def other_broker(on: Ground, name: str = name) -> Values:
        return asking(described_resource(BROKER, name))

    CASES.add(f"a broker named {name!r}", other_broker, topics=[])

    def other_logger(on: Ground, name: str = name) -> Values:
        return asking(described_resource(LOGGER, name))

    CASES.add(f"loggers of a broker named {name!r}", other_logger, topics=[])

for name in ("+1", "01", "0000000001"):

    def same_broker(on: Ground, name: str = name) -> Values:
        own = f"{name[:-1]}{on.broker_id}"
        return asking(described_resource(BROKER, own, ["num.partitions"]), synonyms=False)

    CASES.add(f"this broker named {name!r}", same_broker, topics=[])


@CASES.case(topics=[])
def the_root_logger(on: Ground) -> Values:
    return asking(described_resource(LOGGER, str(on.broker_id), ["root"]), documentation=True)


@CASES.case(topics=[])
def a_logger_that_there_is_not(on: Ground) -> Values:
    return asking(described_resource(LOGGER, str(on.broker_id), ["no.such.logger"]))


@CASES.case(topics=[])
def loggers_of_no_broker(on: Ground) -> Values:
    return asking(described_resource(LOGGER, ""))


@CASES.case(since=1, topics=[])
def a_group(on: Ground) -> Values:
    return asking(described_resource(GROUP, "some-group"), documentation=True)


@CASES.case(since=1, topics=[])
def one_config_of_a_group(on: Ground) -> Values:
    return asking(described_resource(GROUP, "some-group", ["consumer.session.timeout.ms", "nope"]))


@CASES.case(since=1, topics=[])
def a_group_without_a_name(on: Ground) -> Values:
    return asking(described_resource(GROUP, ""))


@CASES.case(since=1, topics=[])
def a_client_metrics_subscription(on: Ground) -> Values:
    return asking(described_resource(SUBSCRIPTION, "some-subscription"), documentation=True)


@CASES.case(since=1, topics=[])
def a_client_metrics_subscription_without_a_name(on: Ground) -> Values:
    return asking(described_resource(SUBSCRIPTION, ""))


for kind in (UNKNOWN, 1, 3, 64, 127, -1):

    def unknown_kind(on: Ground, kind: int = kind) -> Values:
        return asking(described_resource(kind, on.topic), described_resource(TOPIC, on.topic))

    CASES.add(f"kind {kind}", unknown_kind, topics=[PLAIN])


@CASES.case(topics=[])
def nothing(on: Ground) -> Values:
    return asking()


@CASES.case(topics=[PLAIN])
def several_kinds(on: Ground) -> Values:
    return asking(
        described_resource(TOPIC, on.topic, ["flush.ms"]),
        described_resource(BROKER, str(on.broker_id), ["num.partitions"]),
        described_resource(LOGGER, str(on.broker_id), ["root"]),
    )


add_frames(
    CASES, lambda on: asking(described_resource(TOPIC, on.topic, ["flush.ms"])), topics=[PLAIN]
)
