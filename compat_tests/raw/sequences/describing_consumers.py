"""ConsumerGroupDescribe: groups of the newer protocol, and what is none (KIP-848)."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember, consumer_group
from kavka.compat_tests.raw.members import group_of, simple_commit

CASES = Cases("ConsumerGroupDescribe")
T = Topic("t", partitions=2, shared=True)


@CASES.case(topics=[T])
def each_state(on: Ground) -> Script:
    yield consumer_group(on)
    member = ConsumerMember(on, instance="i", assignor="range")
    yield from member.join(rack_id="rack")
    yield consumer_group(on)
    yield from member.own()
    yield consumer_group(on)
    late = ConsumerMember(on, "2")
    yield from late.join()
    yield consumer_group(on)
    yield from member.heartbeat()
    yield consumer_group(on)
    yield from member.own()
    yield consumer_group(on)
    yield from late.own()
    yield consumer_group(on)
    yield member.leaving(-2, instance_id="i")
    yield consumer_group(on)
    yield late.leaving()
    yield consumer_group(on)
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield consumer_group(on)


@CASES.case(topics=[T])
def classic_groups(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield consumer_group(on)
    yield from group_of(on, 1)
    yield consumer_group(on)


@CASES.case(topics=[T])
def several(on: Ground) -> Script:
    yield from ConsumerMember(on).join()
    yield on.ask(group_ids=[on.group, f"{on.group}-2", "", on.group])
    yield on.ask(group_ids=[])
    yield on.ask(group_ids=[on.group, f"{on.group}-2"], include_authorized_operations=True)
