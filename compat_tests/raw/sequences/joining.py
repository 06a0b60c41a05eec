"""JoinGroup: who becomes a member, who is refused, and who waits for whom."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script
from kavka.compat_tests.raw.members import (
    COMPLETING,
    EMPTY,
    PREPARING,
    SHORT_MS,
    SHORT_SESSIONS,
    SMALL_GROUPS,
    SOON_MS,
    Member,
    describing,
    group_of,
    offsets_of,
    simple_commit,
    subscription,
    sync_all,
    until,
)

CASES = Cases("JoinGroup")
FIRST_TWO_ROUNDS = 4
FIRST_STATIC = 5
SLOW = CASES.last
"""The version of scripts that wait for some time to pass; versions differ in nothing there."""


@CASES.case(topics=[])
def a_member_alone(on: Ground) -> Script:
    alone = Member(on)
    yield from alone.join()
    yield describing(on)
    yield alone.syncing({alone.id: b"all of it"})
    yield describing(on)
    yield alone.heartbeat()
    yield alone.leaving()
    yield describing(on)


def with_values(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        if more.get("session_timeout_ms") == SHORT_MS:
            on.needs(*SHORT_SESSIONS)
        answer = yield from Member(on).join(**more)
        if not answer["error_code"]:  # else Apache Kafka may have begun a group, or not
            yield describing(on)

    return script


ODD_VALUES: dict[str, dict[str, Any]] = {
    "an empty group id": {"group_id": ""},
    "a session that is too short": {"session_timeout_ms": SHORT_MS - 1},
    "the shortest session": {"session_timeout_ms": SHORT_MS},
    "the longest session": {"session_timeout_ms": 1_800_000},
    "a session that is too long": {"session_timeout_ms": 1_800_001},
    "a session of no time": {"session_timeout_ms": 0},
    "a session of less than no time": {"session_timeout_ms": -(2**31)},
    "no protocols": {"protocols": []},
    "an empty protocol type": {"protocol_type": ""},
    "neither protocols nor their type": {"protocols": [], "protocol_type": ""},
    "a protocol without a name": {"protocols": [{"name": "", "metadata": b"x"}]},
    "no metadata": {"protocols": [{"name": "range", "metadata": b""}]},
    "another protocol type": {"protocol_type": "connect"},
    "an id that was not given": {"member_id": "somebody"},
}

for name, values in ODD_VALUES.items():
    CASES.add(name, with_values(**values), topics=[])

CASES.add("an empty group id and a bad session", with_values(group_id="", session_timeout_ms=1))
CASES.add("a reason", with_values(reason="because"), since=8, topics=[])
CASES.add("an instance id", with_values(group_instance_id="i"), since=FIRST_STATIC, topics=[])
CASES.add("an empty instance id", with_values(group_instance_id=""), since=FIRST_STATIC, topics=[])
CASES.add(
    "an instance that gives itself an id",
    with_values(group_instance_id="i", member_id="me"),
    since=FIRST_STATIC,
    topics=[],
)


@CASES.case(topics=[])
def two_members(on: Ground) -> Script:
    members = yield from group_of(on, 2)
    yield describing(on)
    for member in members:
        yield member.heartbeat()


@CASES.case(topics=[])
def as_many_as_there_may_be_and_one_more(on: Ground) -> Script:
    on.needs(*SMALL_GROUPS)
    yield from group_of(on, 4, synced=False)
    late = Member(on, "late")
    yield from late.join()
    yield describing(on)


@CASES.case(topics=[])
def an_unknown_member_joins_others(on: Ground) -> Script:
    yield from group_of(on, 1)
    yield Member(on, "2").joining(member_id="somebody")
    yield describing(on)


@CASES.case(topics=[])
def protocols_that_do_not_go_together(on: Ground) -> Script:
    yield from group_of(on, 1)
    yield from Member(on, "2", protocols=["roundrobin"]).join()
    yield from Member(on, "3", kind="connect").join()
    yield from Member(on, "4", kind="").join()
    yield from Member(on, "5", protocols=[]).join()
    yield describing(on)


@CASES.case(topics=[])
def a_member_changes_to_protocols_that_do_not_go_together(on: Ground) -> Script:
    members = yield from group_of(on, 2)
    members[1].protocols = ["roundrobin"]
    yield members[1].joining()
    members[1].kind = "connect"
    yield members[1].joining()
    yield describing(on)


@CASES.case(topics=[])
def the_last_member_may_change_all(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    alone.protocols = ["roundrobin"]
    yield from alone.join()
    alone.kind = "connect"
    yield from alone.join()
    yield describing(on)


@CASES.case(topics=[])
def votes(on: Ground) -> Script:
    first = Member(on, "1", protocols=["range", "roundrobin"])
    second = Member(on, "2", protocols=["roundrobin", "range"])
    third = Member(on, "3", protocols=["sticky", "roundrobin", "range"])
    yield from first.join()
    yield from second.begin(2)
    yield from third.begin(3)
    yield from first.join()
    yield from second.end()
    yield from third.end()
    yield describing(on)


@CASES.case(topics=[])
def a_follower_joins_again(on: Ground) -> Script:
    """Nothing has changed for it, so nothing happens."""
    members = yield from group_of(on, 2)
    yield from members[1].join()
    yield members[0].heartbeat()
    yield members[1].syncing()
    yield describing(on)


@CASES.case(topics=[])
def a_follower_joins_again_with_another_subscription(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2)
    follower.metadata = subscription("another-topic")
    yield from follower.begin(2)
    yield leader.heartbeat()
    yield from leader.join()
    yield from follower.end()
    yield from sync_all([leader, follower])


@CASES.case(topics=[])
def a_leader_joins_again(on: Ground) -> Script:
    """That is how it asks for another round."""
    leader, follower = yield from group_of(on, 2)
    yield from leader.begin(2)
    yield follower.heartbeat()
    yield follower.syncing()
    yield from follower.join()
    yield from leader.end()


@CASES.case(topics=[])
def joining_again_before_the_assignment(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield from follower.join()
    yield from leader.join()
    yield describing(on)
    follower.metadata = subscription("another-topic")
    yield from follower.begin(2)
    yield leader.syncing({leader.id: b"too late"})
    yield from leader.join()
    yield from follower.end()


@CASES.case(since=SLOW, topics=[])
def one_that_does_not_come_back_in_time(on: Ground) -> Script:
    lost = Member(on, "1", rebalance_ms=SOON_MS)
    kept = Member(on, "2", rebalance_ms=SOON_MS)
    yield from lost.join()
    yield from kept.begin(2)
    yield from kept.end()
    yield lost.heartbeat()
    yield lost.joining()
    yield describing(on)


@CASES.case(since=SLOW, topics=[])
def one_that_is_not_heard_of(on: Ground) -> Script:
    lost = Member(on, session_ms=SOON_MS)
    yield from lost.join()
    yield from until(on, EMPTY, 0)
    yield lost.heartbeat()
    yield lost.syncing()
    yield lost.joining()
    yield describing(on)


@CASES.case(since=SLOW, topics=[])
def one_that_is_not_heard_of_while_another_waits(on: Ground) -> Script:
    """Its session ends sooner than the others' patience."""
    lost = Member(on, "1", session_ms=SOON_MS)
    kept = Member(on, "2")
    yield from lost.join()
    yield from kept.begin(2)
    yield from kept.end()
    yield lost.heartbeat()


@CASES.case(since=FIRST_TWO_ROUNDS, topics=[])
def an_id_that_is_not_used_yet(on: Ground) -> Script:
    pending = Member(on)
    answer = yield pending.joining()
    pending.id = answer["member_id"]
    yield from until(on, EMPTY, 0)  # Apache Kafka answers before the group is stored
    yield describing(on)
    yield pending.heartbeat()
    yield pending.syncing(generation_id=0)
    yield pending.leaving()
    yield describing(on)
    yield pending.joining()


@CASES.case(since=FIRST_TWO_ROUNDS, topics=[])
def ids_that_are_not_used_count(on: Ground) -> Script:
    on.needs(*SMALL_GROUPS)
    for number in range(6):
        yield Member(on, str(number)).joining()
    yield from until(on, EMPTY, 0)
    yield describing(on)


@CASES.case(since=SLOW, topics=[])
def an_id_that_is_not_used_does_not_block_the_others_forever(on: Ground) -> Script:
    leader = Member(on, "1")
    yield from leader.join()
    yield Member(on, "2", session_ms=SHORT_MS).joining()
    yield from leader.join()
    yield describing(on)


@CASES.case(topics=[])
def a_group_that_was_deleted(on: Ground) -> Script:
    alone = Member(on)
    yield from alone.join()
    yield alone.leaving()
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield alone.joining()
    yield alone.heartbeat()
    again = Member(on)
    yield from again.join()


@CASES.case()
def a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield describing(on)
    alone = Member(on)
    yield from alone.join()
    yield describing(on)
    yield offsets_of(on)


@CASES.case(topics=[])
def another_protocol_type_after_all_have_left(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield from Member(on, kind="connect", protocols=["default"]).join()
    yield describing(on)


@CASES.case(topics=[])
def a_newcomer_while_others_wait_for_the_assignment(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield follower.syncing(later=True)
    late = Member(on, "late")
    yield from until(on, COMPLETING, 2)
    yield from late.begin(3)
    yield on.answered(follower.link)
    yield leader.heartbeat()
    yield from leader.begin(3)
    yield from follower.join()
    yield from leader.end()
    yield from late.end()
    yield from sync_all([leader, follower, late])
    yield from until(on, "Stable", 3)
    yield describing(on)


# -- static members (KIP-345) ---------------------------------------------------------------


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_comes_back(on: Ground) -> Script:
    """Its place is kept: no other member notices."""
    members = yield from group_of(on, 1, instance="i")
    old = members[0]
    again = Member(on, "2", instance="i")
    yield from again.join()
    yield old.heartbeat()
    yield old.syncing()
    yield old.joining()
    yield old.leaving()
    yield old.heartbeat(group_instance_id=None)
    yield again.syncing()
    yield again.heartbeat()
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_that_follows_comes_back(on: Ground) -> Script:
    leader = Member(on, "1", instance="one")
    follower = Member(on, "2", instance="two")
    yield from leader.join()
    yield from follower.begin(2)
    yield from leader.join()
    yield from follower.end()
    yield from sync_all([leader, follower])
    again = Member(on, "3", instance="two")
    yield from again.join()
    yield leader.heartbeat()
    yield again.syncing()
    yield follower.heartbeat()
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_comes_back_with_another_subscription(on: Ground) -> Script:
    (old,) = yield from group_of(on, 1, instance="i")
    again = Member(on, "2", instance="i", metadata=subscription("another-topic"))
    yield from again.join()
    yield old.heartbeat()
    yield again.syncing({again.id: b"all"})
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_comes_back_with_other_protocols(on: Ground) -> Script:
    (old,) = yield from group_of(on, 1, instance="i")
    again = Member(on, "2", instance="i", protocols=["roundrobin"])
    yield from again.join()
    yield old.heartbeat()
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_comes_back_before_the_assignment(on: Ground) -> Script:
    (old,) = yield from group_of(on, 1, instance="i", synced=False)
    again = Member(on, "2", instance="i")
    yield from again.join()
    yield old.syncing({old.id: b"all"})
    yield again.syncing({again.id: b"all"})


@CASES.case(since=FIRST_STATIC, topics=[])
def an_instance_comes_back_while_it_waits(on: Ground) -> Script:
    leader = Member(on, "1")
    yield from leader.join()
    waiting = Member(on, "2", instance="i")
    yield from waiting.begin(2)
    again = Member(on, "3", instance="i")
    yield again.joining(later=True)
    yield from waiting.end()
    yield from until(on, PREPARING, 2)
    yield from leader.join()
    yield from again.end()
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def instances_with_wrong_ids(on: Ground) -> Script:
    yield from group_of(on, 1, instance="i")
    yield Member(on, "2", instance="i").joining(member_id="somebody")
    yield Member(on, "2", instance="j").joining(member_id="somebody")
    yield Member(on, "2").joining(member_id="somebody")
    yield describing(on)


@CASES.case(since=FIRST_STATIC, topics=[])
def a_known_id_with_another_instance(on: Ground) -> Script:
    static = Member(on, "1", instance="i")
    yield from static.join()
    yield static.joining(group_instance_id="j")
    yield static.joining(group_instance_id=None)
    yield describing(on)
