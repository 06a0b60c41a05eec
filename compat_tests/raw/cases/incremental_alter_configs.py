"""IncrementalAlterConfigs: each operation, each kind of resource, and all that is refused."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.configs import (
    APPEND,
    BROKER,
    DELETE,
    DYNAMIC_TOPIC,
    GROUP,
    LOGGER,
    SET,
    SUBSCRIPTION,
    SUBTRACT,
    TOPIC,
    Change,
    altering,
    described,
    gone,
    in_force,
    resource,
)
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("IncrementalAlterConfigs")

PLAIN = Topic("plain", shared=True)
OWN = Topic("own", configs={"retention.ms": "60000", "cleanup.policy": "compact"})
OTHER = Topic("other", shared=True)
MISSING = "IncrementalAlterConfigs-no-such"
NO_OP = 4


# -- what is set -----------------------------------------------------------------------------

LISTS = {
    "appended": (APPEND, "delete", "compact,delete"),
    "appended, some of it there": (APPEND, "compact,delete", "compact,delete"),
    "appended with a comma behind": (APPEND, "delete,", "compact,delete"),
    "subtracted": (SUBTRACT, "compact", ""),
    "subtracted, some of it not there": (SUBTRACT, "delete,compact", ""),
    "set": (SET, "delete", "delete"),
    "set to nothing": (SET, "", ""),
    "set to the same twice": (SET, "delete,delete", "delete"),
    "deleted": (DELETE, None, "delete"),
    "deleted with a value": (DELETE, "compact", "delete"),
}
for name, (op, text, result) in LISTS.items():

    def a_list(on: Ground, op: int = op, text: str | None = text, result: str = result) -> Script:
        change = Change("cleanup.policy", op, text)
        yield on.ask(**altering(resource(TOPIC, on.topic, change)))
        yield from in_force(on, TOPIC, on.topic, "cleanup.policy", result)
        yield described(on, TOPIC, on.topic, "retention.ms")

    CASES.add(f"a list {name}", a_list, topics=[OWN])

DEFAULTS = {
    "appended to its default": (APPEND, "compact", "delete,compact"),
    "appended to its default, which has it": (APPEND, "delete", "delete"),
    "subtracted from its default": (SUBTRACT, "delete", ""),
    "subtracted from its default, which has it not": (SUBTRACT, "compact", "delete"),
}
for name, (op, text, result) in DEFAULTS.items():

    def a_default(on: Ground, op: int = op, text: str = text, result: str = result) -> Script:
        change = Change("cleanup.policy", op, text)
        yield on.ask(**altering(resource(TOPIC, on.topic, change)))
        yield from in_force(on, TOPIC, on.topic, "cleanup.policy", result, DYNAMIC_TOPIC)

    CASES.add(f"a list {name}", a_default)


FULL = "1" * 32_765 + ":1"  # one item: thousands overflow the stack of Java's regular expressions
THROTTLED = "leader.replication.throttled.replicas"


@CASES.case(topics=[OWN])
def a_value_as_long_as_may_be(on: Ground) -> Script:
    yield on.ask(**altering(resource(TOPIC, on.topic, Change(THROTTLED, SET, FULL))))
    yield from in_force(on, TOPIC, on.topic, THROTTLED, FULL)
    yield on.ask(**altering(resource(TOPIC, on.topic, Change(THROTTLED, APPEND, "9:2"))))
    yield on.ask(**altering(resource(TOPIC, on.topic, Change("flush.ms", SET, "4321"))))
    yield from in_force(on, TOPIC, on.topic, "flush.ms", "4321")


@CASES.case(since=1, topics=[OWN])  # before, strings had no room for them
def values_that_are_too_long(on: Ground) -> Script:
    for name, value in (
        (THROTTLED, f"1{FULL}"),
        ("flush.ms", "9" * 32_768),
        ("no.such", "9" * 32_768),
        ("no.such", "\N{GRINNING FACE}" * 16_384),
        ("flush.ms", "\N{GRINNING FACE}" * 16_383),
    ):
        yield on.ask(**altering(resource(TOPIC, on.topic, Change(name, SET, value))))
    for kind, name in ((GROUP, on.topic), (BROKER, ""), (SUBSCRIPTION, on.topic)):
        change = Change("no.such", SET, "9" * 32_768)
        yield on.ask(**altering(resource(kind, name, change), validate_only=True))


@CASES.case(topics=[OWN])
def several_at_once(on: Ground) -> Script:
    changes = [
        Change("retention.ms", DELETE, None),
        Change("flush.ms", SET, "77"),
        Change("cleanup.policy", APPEND, "delete"),
    ]
    yield on.ask(**altering(resource(TOPIC, on.topic, *changes)))
    yield from in_force(on, TOPIC, on.topic, "flush.ms", "77")
    yield described(on, TOPIC, on.topic, "retention.ms", "cleanup.policy")


@CASES.case(topics=[OWN])
def one_after_the_other(on: Ground) -> Script:
    for value in ("1", "2", "3"):
        change = Change("flush.ms", SET, value)
        yield on.ask(**altering(resource(TOPIC, on.topic, change)))
    yield from in_force(on, TOPIC, on.topic, "flush.ms", "3")


@CASES.case(topics=[OWN])
def only_validated(on: Ground) -> Script:
    change = Change("retention.ms", SET, "70000")
    yield on.ask(**altering(resource(TOPIC, on.topic, change), validate_only=True))
    yield described(on, TOPIC, on.topic, "retention.ms")


@CASES.case(topics=[OWN])
def what_is_refused_changes_nothing(on: Ground) -> Script:
    changes = [Change("flush.ms", SET, "77"), Change("retention.ms", SET, "x")]
    yield on.ask(**altering(resource(TOPIC, on.topic, *changes)))
    yield described(on, TOPIC, on.topic, "retention.ms", "flush.ms")


@CASES.case(topics=[OWN, Topic("other")])
def one_is_refused_and_one_is_not(on: Ground) -> Script:
    bad = resource(TOPIC, on.topic, Change("segment.bytes", SET, "1"))
    good = resource(TOPIC, on.name("other"), Change("flush.ms", SET, "4321"))
    yield on.ask(**altering(bad, good))
    yield from in_force(on, TOPIC, on.name("other"), "flush.ms", "4321")
    yield described(on, TOPIC, on.topic, "segment.bytes")


@CASES.case(topics=[OWN])
def no_changes(on: Ground) -> Values:
    return altering(resource(TOPIC, on.topic))


@CASES.case(topics=[OWN])
def what_contradicts_what_is_there(on: Ground) -> Script:
    yield on.ask(**altering(resource(TOPIC, on.topic, Change("min.compaction.lag.ms", SET, "9"))))
    yield on.ask(**altering(resource(TOPIC, on.topic, Change("max.compaction.lag.ms", SET, "5"))))
    yield from in_force(on, TOPIC, on.topic, "min.compaction.lag.ms", "9")


# -- what is refused of a topic --------------------------------------------------------------

REFUSED = {
    "an unknown config": [Change("no.such", SET, "1")],
    "an unknown config deleted": [Change("no.such", DELETE, None)],
    "an unknown config appended to": [Change("no.such", APPEND, "1")],
    "an unknown config subtracted from": [Change("no.such", SUBTRACT, "1")],
    "a null": [Change("retention.ms", SET, None)],
    "a null appended": [Change("cleanup.policy", APPEND, None)],
    "nulls": [Change("retention.ms", SET, None), Change("cleanup.policy", SUBTRACT, None)],
    "a number appended": [Change("retention.ms", APPEND, "1")],
    "a number subtracted": [Change("retention.ms", SUBTRACT, "1")],
    "a number that is none": [Change("retention.ms", SET, "1.5")],
    "a number that is too small": [Change("retention.ms", SET, "-2")],
    "a ratio that is none": [Change("min.cleanable.dirty.ratio", SET, "half")],
    "a word that is none": [Change("message.timestamp.type", SET, "Now")],
    "an item appended that is none": [Change("cleanup.policy", APPEND, "keep")],
    "nothing appended": [Change("cleanup.policy", APPEND, "")],
    "a config twice": [Change("flush.ms", SET, "1"), Change("flush.ms", SET, "1")],
    "a config set and deleted": [Change("flush.ms", SET, "1"), Change("flush.ms", DELETE, None)],
    "no such operation": [Change("flush.ms", NO_OP, "1")],
    "an operation below 0": [Change("flush.ms", -1, "1")],
    "no such operation and a null": [Change("flush.ms", NO_OP, None)],
    "tiered storage": [Change("remote.storage.enable", SET, "true")],
}
for name, changes in REFUSED.items():

    def refused(on: Ground, changes: list[Change] = changes) -> Values:
        return altering(resource(TOPIC, on.topic, *changes), validate_only=True)

    CASES.add(name, refused, topics=[PLAIN])


@CASES.case(topics=[PLAIN, OTHER])
def no_such_operation_beside_another_topic(on: Ground) -> Values:
    return altering(
        resource(TOPIC, on.topic, Change("flush.ms", NO_OP, "1")),
        resource(TOPIC, on.name("other"), Change("flush.ms", SET, "1")),
        resource(BROKER, str(on.broker_id), Change("num.partitions", SET, "3")),
        validate_only=True,
    )


@CASES.case(topics=[PLAIN])
def a_resource_twice(on: Ground) -> Values:
    altered = resource(TOPIC, on.topic, Change("flush.ms", SET, "1"))
    return altering(altered, altered, validate_only=True)


@CASES.case(topics=[PLAIN, OTHER])
def a_resource_twice_with_another_between(on: Ground) -> Values:
    altered = resource(TOPIC, on.topic, Change("flush.ms", SET, "1"))
    other = resource(TOPIC, on.name("other"), Change("flush.ms", SET, "1"))
    return altering(altered, other, altered, validate_only=True)


@CASES.case(topics=[PLAIN])
def a_name_of_two_kinds(on: Ground) -> Values:
    topic = resource(TOPIC, on.topic, Change("flush.ms", SET, "1"))
    return altering(topic, resource(BROKER, on.topic), validate_only=True)


UNKNOWN_TOPIC = {
    "set": Change("retention.ms", SET, "1"),
    "deleted": Change("retention.ms", DELETE, None),
    "set badly": Change("retention.ms", SET, "x"),
    "appended badly": Change("retention.ms", APPEND, "x"),
}
for name, change in UNKNOWN_TOPIC.items():

    def unknown(on: Ground, change: Change = change) -> Values:
        return altering(resource(TOPIC, on.facts.prefix + MISSING, change))

    CASES.add(f"an unknown topic's config {name}", unknown, topics=[])

    def unnamed(on: Ground, change: Change = change) -> Values:
        return altering(resource(TOPIC, "", change))

    CASES.add(f"a nameless topic's config {name}", unnamed, topics=[])

for name in (".", "a b", "x" * 250):

    def badly_named(on: Ground, name: str = name) -> Values:
        return altering(resource(TOPIC, name, Change("retention.ms", SET, "1")))

    CASES.add(f"a topic named {name[:9]!r}", badly_named, topics=[])

for kind in (0, 1, 3, 64, 127, -1):

    def unknown_kind(on: Ground, kind: int = kind) -> Values:
        return altering(resource(kind, str(on.broker_id), Change("root", SET, "INFO")))

    CASES.add(f"kind {kind}", unknown_kind, topics=[])


# -- brokers ---------------------------------------------------------------------------------


def of_broker(changes: list[Change], *, of_all: bool = False) -> Function:
    def values(on: Ground) -> Values:
        name = "" if of_all else str(on.broker_id)
        return altering(resource(BROKER, name, *changes), validate_only=True)

    return values


OF_BROKER = {
    "a read-only config": [Change("num.partitions", SET, "3")],
    "a read-only config deleted": [Change("num.partitions", DELETE, None)],
    "a read-only config appended to": [Change("log.dirs", APPEND, "/x")],
    "the broker's number": [Change("broker.id", SET, "3")],
    "retention in hours": [Change("log.retention.hours", SET, "3")],
    "an unknown config": [Change("no.such", SET, "3")],
    "an unknown config appended to": [Change("no.such", APPEND, "3")],
    "a number appended": [Change("log.retention.ms", APPEND, "3")],
    "a number subtracted": [Change("log.retention.ms", SUBTRACT, "3")],
    "a null": [Change("log.retention.ms", SET, None)],
    "no such operation": [Change("log.retention.ms", NO_OP, "3")],
    "a number that is none": [Change("log.retention.ms", SET, "x")],
    "a retention of 0": [Change("log.retention.ms", SET, "0")],
    "a retention without limit": [Change("log.retention.ms", SET, "-1")],
    "a roll of 0": [Change("log.roll.ms", SET, "0")],
    "a jitter below 0": [Change("log.roll.jitter.ms", SET, "-1")],
    "segments too small": [Change("log.segment.bytes", SET, "5")],
    "a codec that is none": [Change("compression.type", SET, "rar")],
    "a level that is none": [Change("compression.gzip.level", SET, "99")],
    "a policy": [Change("log.cleanup.policy", APPEND, "compact")],
    "a policy taken away": [Change("log.cleanup.policy", SUBTRACT, "delete")],
    "a policy that is none": [Change("log.cleanup.policy", APPEND, "keep")],
    "a throttled rate": [Change("leader.replication.throttled.rate", SET, "1000")],
    "a throttled rate that is none": [Change("follower.replication.throttled.rate", SET, "x")],
    "a throttled rate below 0": [Change("leader.replication.throttled.rate", SET, "-1")],
    "the biggest message": [Change("message.max.bytes", SET, "900000000")],
    "a certificate for all listeners": [Change("ssl.keystore.location", SET, "/x")],
    "ids that expire at once": [Change("producer.id.expiration.ms", SET, "0")],
    "many more threads": [Change("num.io.threads", SET, "17")],
    "many fewer threads": [Change("num.io.threads", SET, "3")],
    "twice the threads": [Change("num.io.threads", SET, "16")],
    "half the threads": [Change("num.io.threads", SET, "4")],
    "no threads": [Change("num.io.threads", SET, "0")],
    "more network threads": [Change("num.network.threads", SET, "7")],
    "more fetchers": [Change("num.replica.fetchers", SET, "3")],
    "more threads for recovery": [Change("num.recovery.threads.per.data.dir", SET, "5")],
    "more cleaners": [Change("log.cleaner.threads", SET, "3")],
    "no cleaners": [Change("log.cleaner.threads", SET, "0")],
    "a small buffer for cleaners": [Change("log.cleaner.dedupe.buffer.size", SET, "1048576")],
    "a limit on connections": [Change("max.connections", SET, "100")],
    "no connections": [Change("max.connections", SET, "0")],
    "no new connections": [Change("max.connection.creation.rate", SET, "0")],
    "fewer than no connections": [Change("max.connections", SET, "-1")],
    "no connections of one address": [Change("max.connections.per.ip", SET, "0")],
    "no connections but of one address": [
        Change("max.connections.per.ip", SET, "0"),
        Change("max.connections.per.ip.overrides", SET, "127.0.0.1:5"),
    ],
    "one listener's limit": [Change("listener.name.plaintext.max.connections", SET, "100")],
    "one listener's limit that is none": [
        Change("listener.name.plaintext.max.connections", SET, "x")
    ],
    "one listener's limit of 0": [Change("listener.name.plaintext.max.connections", SET, "0")],
    "one listener's limit appended to": [
        Change("listener.name.plaintext.max.connections", APPEND, "1")
    ],
    "where elections may lose": [Change("unclean.leader.election.enable", SET, "true")],
}
for name, changes in OF_BROKER.items():
    CASES.add(f"broker: {name}", of_broker(changes), topics=[])
    CASES.add(f"all brokers: {name}", of_broker(changes, of_all=True), topics=[])

FOR_ALL_BROKERS = {
    "listeners": [Change("listeners", SET, "PLAINTEXT://:1")],
    "the protocol of TLS": [Change("ssl.protocol", SET, "TLSv1.3")],
    "one listener's certificate": [
        Change("listener.name.plaintext.ssl.keystore.location", SET, "/x")
    ],
    "one listener's password": [
        Change("listener.name.plaintext.ssl.keystore.password", SET, "secret")
    ],
    "one listener's rate": [
        Change("listener.name.plaintext.max.connection.creation.rate", SET, "9")
    ],
}
for name, changes in FOR_ALL_BROKERS.items():
    CASES.add(f"all brokers: {name}", of_broker(changes, of_all=True), topics=[])


def set_and_unset(name: str, key: str, value: str, default: str) -> Function:
    def script(on: Ground) -> Script:
        broker = str(on.broker_id)
        target = name or broker
        resource_name = "" if name == "all" else target
        change = Change(key, SET, value)
        yield on.ask(**altering(resource(BROKER, resource_name, change)))
        yield from in_force(on, BROKER, broker, key, value)
        yield on.ask(**altering(resource(BROKER, resource_name, Change(key, DELETE, None))))
        yield from in_force(on, BROKER, broker, key, default)

    return script


for whose in ("", "all"):
    who = "all brokers" if whose else "broker"
    CASES.add(
        f"{who}: set and unset",
        set_and_unset(whose, "log.index.interval.bytes", "5000", "4096"),
        topics=[],
    )


@CASES.case(topics=[PLAIN])
def a_topic_follows_its_broker(on: Ground) -> Script:
    broker = str(on.broker_id)
    key, of_topic = "log.index.interval.bytes", "index.interval.bytes"
    yield on.ask(**altering(resource(BROKER, "", Change(key, SET, "5000"))))
    yield from in_force(on, TOPIC, on.topic, of_topic, "5000")
    yield on.ask(**altering(resource(BROKER, broker, Change(key, SET, "6000"))))
    yield from in_force(on, TOPIC, on.topic, of_topic, "6000")
    yield described(on, BROKER, broker, key)
    yield described(on, BROKER, "", key)
    yield on.ask(**altering(resource(BROKER, "", Change(key, DELETE, None))))
    yield from gone(on, BROKER, "", key)
    yield on.ask(**altering(resource(BROKER, broker, Change(key, DELETE, None))))
    yield from in_force(on, TOPIC, on.topic, of_topic, "4096")


@CASES.case(topics=[])
def hours_and_milliseconds(on: Ground) -> Script:
    broker = str(on.broker_id)
    yield on.ask(**altering(resource(BROKER, broker, Change("log.roll.ms", SET, "70000000"))))
    yield from in_force(on, BROKER, broker, "log.roll.ms", "70000000")
    yield described(on, BROKER, broker, "log.roll.hours")
    yield on.ask(**altering(resource(BROKER, broker, Change("log.roll.ms", DELETE, None))))
    yield from in_force(on, BROKER, broker, "log.roll.ms", None)


@CASES.case(topics=[])
def an_unknown_config_is_kept_to_itself(on: Ground) -> Script:
    broker = str(on.broker_id)
    yield on.ask(**altering(resource(BROKER, broker, Change("my.own", SET, "secret"))))
    yield from in_force(on, BROKER, broker, "my.own", None)
    yield on.ask(**altering(resource(BROKER, broker, Change("my.own", DELETE, None))))
    yield from gone(on, BROKER, broker, "my.own")


for name in ("7", "x", "-1", " 1", "99999999999"):

    def other_broker(on: Ground, name: str = name) -> Values:
        return altering(resource(BROKER, name, Change("log.retention.ms", SET, "1")))

    CASES.add(f"a broker named {name!r}", other_broker, topics=[])

# -- loggers ---------------------------------------------------------------------------------

LOGGERS = {
    "a level": [Change("root", SET, "DEBUG")],
    "a level in small letters": [Change("root", SET, "debug")],
    "a level that is none": [Change("root", SET, "OFF")],
    "an empty level": [Change("root", SET, "")],
    "a null level": [Change("root", SET, None)],
    "the root unset": [Change("root", DELETE, None)],
    "a level appended": [Change("root", APPEND, "INFO")],
    "a level subtracted": [Change("root", SUBTRACT, "INFO")],
    "no such operation": [Change("root", NO_OP, "INFO")],
    "no such logger": [Change("no.such.logger", SET, "INFO")],
    "no such logger unset": [Change("no.such.logger", DELETE, None)],
    "no such logger nor level": [Change("no.such.logger", SET, "x")],
    "a logger without a name": [Change("", SET, "INFO")],
    "a logger twice": [Change("root", SET, "INFO"), Change("root", SET, "INFO")],
    "nothing": [],
}
for name, changes in LOGGERS.items():

    def of_loggers(on: Ground, changes: list[Change] = changes) -> Values:
        return altering(resource(LOGGER, str(on.broker_id), *changes), validate_only=True)

    CASES.add(f"loggers: {name}", of_loggers, topics=[])

for name in ("", "7", "x", "01"):

    def other_loggers(on: Ground, name: str = name) -> Values:
        resource_name = f"0{on.broker_id}" if name == "01" else name
        return altering(resource(LOGGER, resource_name, Change("root", SET, "INFO")))

    CASES.add(f"loggers of a broker named {name!r}", other_loggers, topics=[])


@CASES.case(topics=[])
def loggers_one_after_the_other(on: Ground) -> Script:
    broker = str(on.broker_id)
    for level in ("TRACE", "DEBUG", "WARN", "ERROR", "FATAL", "INFO"):
        yield on.ask(**altering(resource(LOGGER, broker, Change("root", SET, level))))
        yield described(on, LOGGER, broker, "root")


@CASES.case(topics=[])
def loggers_all_or_none(on: Ground) -> Script:
    broker = str(on.broker_id)
    changes = [Change("root", SET, "ERROR"), Change("no.such.logger", SET, "INFO")]
    yield on.ask(**altering(resource(LOGGER, broker, *changes)))
    yield described(on, LOGGER, broker, "root")


# -- what Kavka has none of ------------------------------------------------------------------

OF_OTHERS = {
    "a group without a name": (GROUP, "", Change("consumer.session.timeout.ms", SET, "50000")),
    "an unknown config of a group": (GROUP, "group", Change("no.such", SET, "1")),
    "a bad config of a group": (GROUP, "group", Change("consumer.session.timeout.ms", SET, "x")),
    "a group's config unset": (GROUP, "group", Change("consumer.session.timeout.ms", DELETE, None)),
    "a group's config appended to": (GROUP, "group", Change("share.isolation.level", APPEND, "x")),
    "a config of a group": (GROUP, "group", Change("consumer.session.timeout.ms", SET, "50000")),
    "a subscription without a name": (SUBSCRIPTION, "", Change("interval.ms", SET, "1000")),
    "an unknown config of a subscription": (SUBSCRIPTION, "sub", Change("no.such", SET, "1")),
    "a bad config of a subscription": (SUBSCRIPTION, "sub", Change("interval.ms", SET, "x")),
    "an empty item of a subscription": (SUBSCRIPTION, "sub", Change("metrics", SET, "a,,b")),
    "a subscription's list appended to": (SUBSCRIPTION, "sub", Change("metrics", APPEND, "a")),
    "a subscription's config unset": (SUBSCRIPTION, "sub", Change("metrics", DELETE, None)),
    "a config of a subscription": (SUBSCRIPTION, "sub", Change("interval.ms", SET, "1000")),
}
for name, (kind, whose, change) in OF_OTHERS.items():

    def of_others(
        on: Ground, kind: int = kind, whose: str = whose, change: Change = change
    ) -> Values:
        return altering(resource(kind, whose, change), validate_only=True)

    CASES.add(name, of_others, topics=[])


@CASES.case(topics=[])
def nothing(on: Ground) -> Values:
    return altering()


add_frames(
    CASES,
    lambda on: altering(
        resource(TOPIC, on.topic, Change("flush.ms", SET, "9")), validate_only=True
    ),
    topics=[PLAIN],
)
