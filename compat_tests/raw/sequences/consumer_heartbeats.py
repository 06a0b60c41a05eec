"""ConsumerGroupHeartbeat: epochs, errors, instances and reconciliation (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import (
    PAUSING,
    ConsumerMember,
    consumer_group,
    reconcile,
)
from kavka.compat_tests.raw.members import describing

CASES = Cases("ConsumerGroupHeartbeat")
REGEX_SINCE = 1
UNKNOWN_ID = UUID(int=77)
T = Topic("t", partitions=2, shared=True)
FOUR = Topic("four", partitions=4, shared=True)


@CASES.case(topics=[T])
def a_member_alone(on: Ground) -> Script:
    alone = ConsumerMember(on)
    yield from alone.join()
    yield from alone.heartbeat()
    yield from alone.own()
    yield from alone.heartbeat()
    yield consumer_group(on)
    yield alone.leaving()
    yield consumer_group(on)
    yield alone.heartbeating()


ODD_FIRST: dict[str, dict[str, Any]] = {
    "an empty group id": {"group_id": ""},
    "a blank group id": {"group_id": "  "},
    "an epoch of -3": {"member_epoch": -3},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "a rebalance timeout of no time": {"rebalance_timeout_ms": 0},
    "no topics subscribed": {"subscribed_topic_names": None},
    "an empty list of topics": {"subscribed_topic_names": []},
    "a topic twice": {"subscribed_topic_names": ["x", "x"]},
    "no partitions given": {"topic_partitions": None},
    "partitions owned already": {"topic_partitions": [{"topic_id": UNKNOWN_ID, "partitions": [0]}]},
    "an empty instance id": {"instance_id": ""},
    "an empty rack id": {"rack_id": ""},
    "a rack id": {"rack_id": "rack"},
    "an empty assignor": {"server_assignor": ""},
    "an unknown assignor": {"server_assignor": "nonsense"},
    "the range assignor": {"server_assignor": "range"},
    "the uniform assignor": {"server_assignor": "uniform"},
    "a topic that is not there": {"subscribed_topic_names": ["no-such-topic-at-all"]},
    "an empty topic": {"subscribed_topic_names": [""]},
}
NOT_FIRST: dict[str, dict[str, Any]] = {
    "a first epoch of 1": {"member_epoch": 1},
    "leaving no group": {"member_epoch": -1},
    "pausing in no group": {"member_epoch": -2, "instance_id": "i"},
    "pausing without an instance": {"member_epoch": -2},
    "no member id and an epoch": {"member_id": "", "member_epoch": 1},
    "no member id, leaving": {"member_id": "", "member_epoch": -1},
    "an unknown assignor, not at first": {"member_epoch": 1, "server_assignor": "nonsense"},
}
OF_REGEX: dict[str, dict[str, Any]] = {
    "a regular expression": {"subscribed_topic_regex": "no-such-.*"},
    "a bad regular expression": {"subscribed_topic_regex": "("},
    "an expression that RE2 does not have": {"subscribed_topic_regex": "(?=a)b"},
    "a back reference": {"subscribed_topic_regex": r"(a)\1"},
    "an empty regular expression": {"subscribed_topic_regex": ""},
    "neither names nor an expression": {"subscribed_topic_names": None},
    "an empty member id": {"member_id": ""},
    "a blank member id": {"member_id": " "},
}


def joining(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        member = ConsumerMember(on)
        answer = yield from member.followed(member.joining(**more))
        if not answer["error_code"]:
            yield consumer_group(on)

    return script


def heartbeating(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        yield ConsumerMember(on).heartbeating(**{"member_id": "somebody", **more})

    return script


for name, values in ODD_FIRST.items():
    CASES.add(name, joining(**values), topics=[T])
for name, values in NOT_FIRST.items():
    CASES.add(name, heartbeating(**values), topics=[T])
for name, values in OF_REGEX.items():
    CASES.add(name, joining(**values), topics=[T], since=REGEX_SINCE)
    if "regex" in str(values):
        more = {**values, "subscribed_topic_names": None}
        CASES.add(f"{name} alone", joining(**more), topics=[T], since=REGEX_SINCE)


@CASES.case(topics=[T])
def epochs(on: Ground) -> Script:
    member = ConsumerMember(on)
    yield from member.join()
    yield from member.own()
    for epoch in (member.epoch + 1, member.epoch - 1, 99, 0):
        yield member.heartbeating(member_epoch=epoch)
    yield member.heartbeating(member_epoch=member.epoch - 1, topic_partitions=member.owned)
    yield member.heartbeating(member_epoch=member.epoch - 1, topic_partitions=[])
    yield member.heartbeating(member_id="somebody")
    yield member.heartbeating(member_id="somebody", member_epoch=-1)
    yield member.heartbeating(member_epoch=-3)
    yield from member.followed(member.joining())
    yield consumer_group(on)


@CASES.case(topics=[T])
def what_changes_later(on: Ground) -> Script:
    member = ConsumerMember(on)
    yield from member.join()
    yield from member.own()
    yield from member.heartbeat(server_assignor="range")
    yield from member.heartbeat(rack_id="rack")
    yield from member.heartbeat(rebalance_timeout_ms=70_000)
    yield from member.heartbeat(subscribed_topic_names=["no-such-topic-at-all"])
    yield from member.own()
    yield consumer_group(on)
    yield from member.heartbeat(subscribed_topic_names=[on.topic])
    yield from member.own()
    yield member.heartbeating(server_assignor="nonsense")
    yield member.heartbeating(server_assignor="")
    yield consumer_group(on)


@CASES.case(topics=[FOUR], since=REGEX_SINCE)
def two_members_share(on: Ground) -> Script:
    """Partitions move only when their owner has given them back."""
    first, second = ConsumerMember(on, "1"), ConsumerMember(on, "2")
    yield from first.join()
    yield from first.own()
    yield from second.join()
    yield consumer_group(on)
    yield from second.heartbeat()
    yield from first.heartbeat()
    yield from second.heartbeat()
    yield from first.own()
    yield from second.heartbeat()
    yield from second.own()
    yield from first.heartbeat()
    yield consumer_group(on)
    yield second.leaving()
    yield from first.heartbeat()
    yield from first.own()
    yield consumer_group(on)


@CASES.case(topics=[FOUR, T], since=REGEX_SINCE)
def three_members_by_range(on: Ground) -> Script:
    topics = [on.topic, on.name("t")]
    members = [ConsumerMember(on, link, topics=topics, assignor="range") for link in "123"]
    for member in members:
        yield from member.join()
        yield from reconcile(members)
    yield consumer_group(on)
    yield members[0].leaving()
    yield from reconcile(members[1:])
    yield consumer_group(on)


@CASES.case(topics=[FOUR], since=REGEX_SINCE)
def assignors_by_votes(on: Ground) -> Script:
    members = [ConsumerMember(on, "1", assignor="range"), ConsumerMember(on, "2")]
    for member in members:
        yield from member.join()
    yield consumer_group(on)
    third = ConsumerMember(on, "3", assignor="uniform")
    fourth = ConsumerMember(on, "4", assignor="uniform")
    yield from third.join()
    yield from fourth.join()
    yield consumer_group(on)


@CASES.case(topics=[T], since=REGEX_SINCE)
def topics_by_expression(on: Ground) -> Script:
    """The expression is resolved a little later."""
    member = ConsumerMember(on, topics=[], regex=f"{on.topic}|nothing")
    yield from member.join()
    while not member.owned:
        yield from member.followed(member.heartbeating(compared=False))
    yield from member.own()
    yield consumer_group(on)
    yield from member.heartbeat(subscribed_topic_regex="")
    yield from member.own()
    yield consumer_group(on)


@CASES.case(topics=[FOUR], since=REGEX_SINCE)
def what_it_does_not_own(on: Ground) -> Script:
    first, second = ConsumerMember(on, "1"), ConsumerMember(on, "2")
    yield from first.join()
    yield from second.join()
    everything = [{"topic_id": on.topic_id, "partitions": [0, 1, 2, 3]}]
    yield from second.heartbeat(topic_partitions=everything)
    yield from second.heartbeat(topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [0]}])
    yield from first.heartbeat(topic_partitions=[])
    yield consumer_group(on)


# -- static members -------------------------------------------------------------------------


@CASES.case(topics=[T], since=REGEX_SINCE)
def an_instance_pauses_and_comes_back(on: Ground) -> Script:
    old = ConsumerMember(on, "1", instance="i")
    yield from old.join()
    yield from old.own()
    again = ConsumerMember(on, "2", instance="i")
    yield again.joining()
    yield old.leaving(PAUSING, instance_id="i")
    yield consumer_group(on)
    yield old.heartbeating(instance_id="i")
    yield from again.join()
    yield from again.own()
    yield old.heartbeating(instance_id="i")
    yield old.heartbeating()
    yield consumer_group(on)


@CASES.case(topics=[T], since=REGEX_SINCE)
def an_instance_leaves_for_good(on: Ground) -> Script:
    old = ConsumerMember(on, "1", instance="i")
    yield from old.join()
    yield old.leaving(instance_id="i")
    again = ConsumerMember(on, "2", instance="i")
    yield from again.join()
    yield consumer_group(on)


@CASES.case(topics=[T], since=REGEX_SINCE)
def instances_that_are_not_its_own(on: Ground) -> Script:
    static = ConsumerMember(on, "1", instance="i")
    yield from static.join()
    dynamic = ConsumerMember(on, "2")
    yield from dynamic.join()
    yield static.heartbeating(instance_id="j")
    yield static.heartbeating()
    yield dynamic.heartbeating(instance_id="i")
    yield dynamic.heartbeating(instance_id="j")
    yield dynamic.leaving(PAUSING)
    yield dynamic.leaving(PAUSING, instance_id="i")
    yield static.heartbeating(member_id="somebody", instance_id="i")
    yield static.heartbeating(member_id="somebody", instance_id="i", member_epoch=-1)
    yield consumer_group(on)


@CASES.case(topics=[T])
def it_is_no_classic_group(on: Ground) -> Script:
    yield from ConsumerMember(on).join()
    yield describing(on)
    yield on.other("DescribeGroups", 6, groups=[on.group])
