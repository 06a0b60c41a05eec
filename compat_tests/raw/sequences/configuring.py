"""Configs that groups and subscriptions to metrics of clients have for themselves, set by
IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step, Values
from kavka.compat_tests.raw.configs import (
    APPEND,
    DELETE,
    GROUP,
    SET,
    SUBSCRIPTION,
    SUBTRACT,
    Change,
    described,
    in_force,
    resource,
)

CASES = Cases("IncrementalAlterConfigs")


def altering(name: str, *changes: Change, validate_only: bool = False) -> dict[str, Any]:
    """A change of one group's configs."""
    return {"resources": [resource(GROUP, name, *changes)], "validate_only": validate_only}


SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
OF_GROUPS = (SESSION, HEARTBEAT, "consumer.assignment.interval.ms")


@CASES.case(topics=[])
def configs_of_a_group_come_and_go(on: Ground) -> Script:
    changes = [Change(SESSION, SET, "50000"), Change(HEARTBEAT, SET, "6000")]
    yield on.ask(**altering(on.group, *changes))
    yield from in_force(on, GROUP, on.group, SESSION, "50000")
    yield described(on, GROUP, on.group, *OF_GROUPS)
    yield on.ask(**altering(on.group, Change(SESSION, DELETE, None)))
    yield from in_force(on, GROUP, on.group, SESSION, "45000")
    yield described(on, GROUP, on.group, *OF_GROUPS)
    yield on.ask(**altering(on.group, Change(HEARTBEAT, DELETE, None)))
    yield from in_force(on, GROUP, on.group, HEARTBEAT, "5000")


@CASES.case(topics=[])
def a_group_with_a_name_like_a_path(on: Ground) -> Script:
    name = f"{on.group}/../~ *+%é"
    yield on.ask(**altering(name, Change(SESSION, SET, "50000")))
    yield from in_force(on, GROUP, name, SESSION, "50000")
    yield on.ask(**altering(name, Change(SESSION, DELETE, None)))
    yield from in_force(on, GROUP, name, SESSION, "45000")


OUT_OF_BOUNDS = {
    "a session too short": [(SESSION, "44999")],
    "a session too long": [(SESSION, "60001")],
    "no session": [(SESSION, "0")],
    "heartbeats too often": [(HEARTBEAT, "4999")],
    "heartbeats too seldom": [(HEARTBEAT, "15001")],
    "no heartbeats": [(HEARTBEAT, "0"), (SESSION, "1")],
    "assignments too seldom": [("consumer.assignment.interval.ms", "15001")],
    "less than no assignments": [("consumer.assignment.interval.ms", "-1")],
}
for name, values in OUT_OF_BOUNDS.items():

    def out_of_bounds(on: Ground, values: Sequence[tuple[str, str]] = tuple(values)) -> Values:
        changes = [Change(key, SET, value) for key, value in values]
        return altering(on.group, *changes, validate_only=True)

    CASES.add(f"a group, {name}", out_of_bounds, topics=[])


# -- of protocols that Kavka does not serve: accepted and described all the same ----------------

OF_OTHERS = {
    "share.session.timeout.ms": ("44999", "45000", "60001", "0", "x"),
    "share.heartbeat.interval.ms": ("4999", "15000", "15001", "0"),
    "share.record.lock.duration.ms": ("14999", "15000", "60001", "999"),
    "share.delivery.count.limit": ("1", "2", "10", "11"),
    "share.partition.max.record.locks": ("99", "100", "4000", "4001"),
    "share.assignment.interval.ms": ("-1", "0", "15001"),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", ""),
    "share.renew.acknowledge.enable": ("false", "TRUE", "x"),
    "streams.session.timeout.ms": ("44999", "50000", "60001", "0"),
    "streams.heartbeat.interval.ms": ("4999", "6000", "15001"),
    "streams.num.standby.replicas": ("-1", "0", "2", "3"),
    "streams.initial.rebalance.delay.ms": ("-1", "0", "9999999"),
    "streams.assignment.interval.ms": ("-1", "0", "15001"),
    "share.auto.offset.reset": (
        *("latest", "earliest", "LATEST", "none", "", "by_duration", "by_duration:"),
        *("by_duration:PT1H", "by_duration:P1D", "by_duration:p1dt2h3m4.5s", "by_duration:P"),
        *("by_duration:PT", "by_duration:P1DT", "by_duration:-PT1H", "by_duration:PT1H1D"),
        *("by_duration:PT0S", "by_duration:PT1.5M", "by_duration:PT1.S", "by_duration:PT1,5S"),
        *("by_duration:+PT+1H", "by_duration: PT1H", "by_duration:PT1H:", "BY_DURATION:PT1H"),
    ),
}
for key, texts in OF_OTHERS.items():
    for text in texts:

        def of_others(on: Ground, key: str = key, text: str = text) -> Values:
            return altering(on.group, Change(key, SET, text), validate_only=True)

        CASES.add(f"a group, {key}={text}", of_others, since=1, topics=[])


@CASES.case(topics=[])
def configs_of_a_share_group_come_and_go(on: Ground) -> Script:
    keys = ("share.auto.offset.reset", "share.delivery.count.limit", "streams.session.timeout.ms")
    texts = ("earliest", "7", "46000")
    changes = [Change(key, SET, text) for key, text in zip(keys, texts, strict=True)]
    yield on.ask(**altering(on.group, *changes))
    yield from in_force(on, GROUP, on.group, "share.delivery.count.limit", "7")
    yield described(on, GROUP, on.group, *keys)
    yield on.ask(**altering(on.group, *(Change(key, DELETE, None) for key in keys)))
    yield from in_force(on, GROUP, on.group, "share.delivery.count.limit", "5")
    yield described(on, GROUP, on.group, *keys)


# -- subscriptions ---------------------------------------------------------------------------


def subscribing(name: str, *changes: Change, validate_only: bool = False) -> dict[str, Any]:
    """A change of one subscription's configs."""
    return {"resources": [resource(SUBSCRIPTION, name, *changes)], "validate_only": validate_only}


OF_SUBSCRIPTIONS = {
    "interval.ms": ("99", "100", "3600000", "3600001", "0", "-1", "x", "", "2147483648"),
    "metrics": ("", "*", "org.apache.kafka", "a,b", "a,,b", "a,a", " a , b ", ",", "a,*"),
    "match": (
        *("", "client_id=x", "client_id=.*", "client_id", "client_id=", "=x", "=", "a=b=c"),
        *("no_such=x", "CLIENT_ID=x", "client_id=[", "client_id=x,client_instance_id=y"),
        *("client_id=x,client_id=y", "client_source_address=1.2.3.4", "client_source_port=1"),
        *("client_software_name=x", "client_software_version=1", " client_id = x "),
        *("client_id=a{1,2}", ",", "client_id=x,", "client_id=(?<n>x)", "client_id=x="),
    ),
}
for key, texts in OF_SUBSCRIPTIONS.items():
    for text in texts:

        def of_subscriptions(on: Ground, key: str = key, text: str = text) -> Values:
            return subscribing("s", Change(key, SET, text), validate_only=True)

        CASES.add(f"a subscription, {key}={text}", of_subscriptions, since=1, topics=[])

INTERVAL, METRICS, MATCH = OF_SUBSCRIPTIONS
SEVERAL = {
    "an interval and a selector that are bad": {INTERVAL: "50", MATCH: "client_id=["},
    "a selector and a name that are bad": {MATCH: "client_id=[", "no.such": "1"},
    "a list and an interval that are bad": {METRICS: "a,,b", INTERVAL: "50"},
}
for name, configs in SEVERAL.items():

    def several(on: Ground, configs: dict[str, str] = configs) -> Values:
        changes = [Change(key, SET, text) for key, text in configs.items()]
        return subscribing("s", *changes, validate_only=True)

    CASES.add(f"a subscription, {name}", several, topics=[])


def listed(on: Ground, name: str, *, there: bool) -> Step:
    """All subscriptions, once this one is among them or is not any more. Apache Kafka describes it
    from its metadata, and lists what the manager of client metrics has heard of that, later."""

    def is_of_before(answer: Any) -> bool:
        return (
            name
            in [config_resource["resource_name"] for config_resource in answer["config_resources"]]
        ) != there

    return on.other("ListConfigResources", 0, again=is_of_before)


@CASES.case(topics=[])
def a_subscription_comes_and_goes(on: Ground) -> Script:
    name = f"{on.group}/../~ *+%é"
    names = (INTERVAL, METRICS, MATCH)
    yield on.ask(**subscribing(name, Change(INTERVAL, SET, "1000"), Change(METRICS, SET, "a,b")))
    yield from in_force(on, SUBSCRIPTION, name, INTERVAL, "1000")
    yield described(on, SUBSCRIPTION, name, *names)
    yield listed(on, name, there=True)
    for op in (APPEND, SUBTRACT):
        yield on.ask(**subscribing(name, Change(METRICS, op, "a")))
    yield on.ask(**subscribing(name, Change(INTERVAL, DELETE, None)))
    yield from in_force(on, SUBSCRIPTION, name, INTERVAL, "300000")
    yield described(on, SUBSCRIPTION, name, *names)
    yield on.ask(**subscribing(name, *(Change(key, DELETE, None) for key in names)))
    yield from in_force(on, SUBSCRIPTION, name, METRICS, "")
    yield described(on, SUBSCRIPTION, name, *names)
    yield listed(on, name, there=False)
