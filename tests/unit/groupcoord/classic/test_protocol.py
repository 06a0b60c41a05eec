"""All classic groups of one partition: heartbeats, leaving, records, and what is left to answer."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.group import ClassicGroup, GroupState, empty_group_record
from kavka.groupcoord.classic.members import Member, member_timer
from kavka.groupcoord.classic.records import encode_key, tombstone
from kavka.groupcoord.classic.requests import Leaver
from kavka.log.journal import Decision, Record
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, run_at_once
from support.classic_groups import (
    BOTH,
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicKit,
    big_group,
    code_of,
)
from support.steps import stops_of


def test_heartbeats_keep_a_member() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    for _ in range(10):
        kit.advance(SESSION_MS - 1)
        assert kit.beat(leader, 1) is ErrorCode.NONE
    assert kit.told == 9, "all but the first"


def test_heartbeats_of_wrong_ones() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    assert kit.beat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.beat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert kit.beat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert kit.beat(leader, 1, "i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.beat(leader, 1, group_id="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert kit.beat("", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_tell_of_a_rebalance_and_count() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    kit.join(leader)
    for _ in range(3):
        kit.advance(SESSION_MS - 1)
        assert kit.beat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    kit.join(follower)
    assert kit.beat(follower, 2) is ErrorCode.NONE, "it has to wait for the leader only"


def told(kit: ClassicKit, *leavers: Leaver | str) -> list[tuple[str, str | None, ErrorCode]]:
    answer = kit.leave(*leavers).answer
    assert answer.error_code == 0
    return [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members]


def test_a_member_leaves() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    assert told(kit, follower, follower) == [
        (follower, None, ErrorCode.NONE),
        (follower, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert kit.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_one_that_was_waited_for_leaves() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    ticket = kit.join(leader)
    kit.leave(follower)
    assert ticket.answer.generation_id == 2


def test_all_leave_at_once() -> None:
    kit = ClassicKit()
    ids = kit.form(RANGE, RANGE, RANGE)
    batches = len(kit.port.batches)
    kit.leave(*ids)
    assert kit.group.current is GroupState.EMPTY
    assert len(kit.port.batches) == batches + 1
    assert told(kit, ids[0]) == [(ids[0], None, ErrorCode.UNKNOWN_MEMBER_ID)]


def test_one_leaves_that_has_only_been_given_an_id() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    given = kit.join().answer.member_id
    assert told(kit, given) == [(given, None, ErrorCode.NONE)]
    assert kit.group.pending == {}
    assert kit.group.current is GroupState.PREPARING_REBALANCE, "as with Apache Kafka"
    kit.join(leader)
    assert kit.group.generation == 2


def test_static_members_leave_by_their_instance_ids() -> None:
    kit = ClassicKit()
    ticket = kit.join(instance_id="i")
    kit.advance(DELAY_MS)
    own = ticket.answer.member_id
    assert told(kit, Leaver("", "j"), Leaver("", None), Leaver("m", "i"), Leaver(own, "j")) == [
        ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", "i", ErrorCode.FENCED_INSTANCE_ID),
        (own, "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert kit.group.generation == 1
    assert told(kit, Leaver("", "i")) == [("", "i", ErrorCode.NONE)]
    assert kit.group.current is GroupState.EMPTY
    assert not kit.group.static


def test_leaving_a_group_that_is_not_there() -> None:
    assert told(ClassicKit(), "m", Leaver("", "i")) == [
        ("m", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


def test_nobody_leaves() -> None:
    kit = ClassicKit()
    kit.form()
    assert told(kit) == []
    assert kit.group.current is GroupState.STABLE


def test_a_reason_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.leave(Leaver(leader, None, "enough"))
    assert (
        f"[Group g] Member {leader} has left group through explicit `LeaveGroup` request; client "
        "reason: enough" in caplog.messages
    )
    assert "Group g with generation 2 is now empty." in caplog.messages


# -- records


def test_another_coordinator_goes_on() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(BOTH, RANGE)
    kit.move()
    assert kit.beat(leader, 1) is ErrorCode.NONE
    assert kit.sync(follower, 1).answer.assignment == b"of 1"
    kit.advance(SESSION_MS)
    assert kit.group.current is GroupState.EMPTY


def test_sessions_begin_anew_when_a_group_is_loaded() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    kit.advance(SESSION_MS - 1)
    kit.move()
    kit.advance(SESSION_MS - 1)
    assert kit.beat(leader, 1) is ErrorCode.NONE


def test_what_waits_is_told_when_another_broker_takes_over() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    join = kit.join(leader)
    assert kit.shard.classic.tickets() == [join]
    kit.move()
    assert code_of(join) is ErrorCode.NOT_COORDINATOR
    join, sync = kit.join(leader), kit.join(follower)
    sync = kit.sync(follower, 2)
    assert kit.shard.classic.tickets() == [sync]
    assert join.settled


def test_a_tombstone_makes_a_group_go() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    given = kit.join().answer.member_id
    kit.shard.apply(tombstone("g"), None)
    assert not kit.shard.state.groups
    assert kit.beat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert member_timer("g", given) not in kit.shard.timers
    assert len(kit.shard.timers) == 0
    kit.shard.apply(tombstone("g"), None)


def test_odd_records_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    kit = ClassicKit()
    kit.shard.apply(Record(encode_key("g"), b"\0\x09what?"), None)
    kit.shard.apply(Record(b"\0\2\0\x09g", b""), None)
    assert not kit.shard.state.groups
    assert "Skipped the record of group g: it can't be read" in caplog.text


def test_a_record_that_breaks_off_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    kit = ClassicKit()
    kit.form()
    (stored,) = [one for one in kit.appended if one.value and len(one.value) > 50]
    value = stored.value or b""
    kit.shard.apply(stored._replace(value=value[:-1]), None)
    assert not list(kit.shard.loaded(kit.now_ms))
    assert (kit.group.current, kit.group.protocol_type) == (GroupState.EMPTY, "")
    assert "Skipped the record of group g: it can't be read" in caplog.text


def test_a_group_that_is_replayed_is_read_in_steps() -> None:
    kit = ClassicKit()
    group = big_group(kit, 2 * ITEMS_A_STEP)
    record = run_at_once(group.record())
    kit.shard.replay([record.key] * 3, [record.value] * 3)
    assert not kit.group.members, "only the last counts, and is read when all are there"
    pauses, _ = stops_of(kit.shard.classic.decode_replayed())
    assert pauses >= 4, "two while it is read, and two while it is made"
    assert len(kit.group.members) == 2 * ITEMS_A_STEP
    kit.shard.replay([record.key], [record.value])
    read, begun = 4, 2
    assert len(list(kit.shard.loaded(kit.now_ms))) >= read + begun


def test_many_small_groups_are_read_in_steps() -> None:
    kit = ClassicKit()
    value = run_at_once(big_group(kit, 1).record()).value
    keys = [encode_key(f"g{number}") for number in range(ITEMS_A_STEP)]
    kit.shard.replay(keys, [value] * len(keys))
    pauses, _ = stops_of(kit.shard.classic.decode_replayed())
    assert pauses >= 4
    assert {one.state(kit.now_ms) for one in kit.shard.state.groups.values()} == {"Stable"}


def test_the_last_record_counts() -> None:
    kit = ClassicKit()
    record = run_at_once(big_group(kit, 2).record())
    kit.shard.replay([record.key] * 2, [record.value, None])
    assert not list(kit.shard.loaded(kit.now_ms))
    assert not kit.shard.state.groups


def test_a_record_takes_the_place_of_what_was() -> None:
    kit = ClassicKit()
    kit.form()
    kit.shard.apply(empty_group_record(ClassicGroup("g", kit.shard.timers, 5)), None)
    run_at_once(kit.shard.classic.decode_replayed())
    assert (kit.group.current, kit.group.since_ms, kit.group.generation) == (
        GroupState.EMPTY,
        5,
        0,
    )


def test_a_group_that_is_about_to_be_another_s() -> None:
    kit = ClassicKit()
    leader, follower = kit.form(RANGE, RANGE)
    join = kit.join(leader)
    kit.advance(SESSION_MS - 1)
    replies = kit.shard.classic.fail_waiting_requests(
        kit.group, ErrorCode.REBALANCE_IN_PROGRESS, kit.now_ms
    )
    assert [one.ticket for one in replies] == [join]
    assert replies[0].answer.member_id == leader
    kit.advance(SESSION_MS - 1)
    assert list(kit.group.members) == [leader], "it stayed, and has had time to be heard of"
    kit.advance(1)
    assert kit.group.current is GroupState.EMPTY
    assert follower not in kit.group.members


def test_a_group_comes_from_elsewhere() -> None:
    kit = ClassicKit()
    group = ClassicGroup("g", kit.shard.timers, kit.now_ms)
    group.current = GroupState.STABLE
    group.add(Member("g", "m", None, "c", "/h", REBALANCE_MS, SESSION_MS, RANGE), "consumer", None)
    group.protocol = "range"
    out = Decision()
    run_at_once(kit.shard.classic.adopt(group, out, "because", kit.now_ms))
    assert not kit.shard.state.groups
    run_at_once(kit.journal.carry_out_in_steps(out, kit.now_ms))
    kit.commit()
    assert kit.group is group
    assert kit.beat("m", 0) is ErrorCode.REBALANCE_IN_PROGRESS
    stored = kit.replayed().state.groups["g"]
    assert (stored.state(0), stored.protocol_type) == ("Stable", "consumer")
    kit.advance(SESSION_MS)
    assert kit.group.current is GroupState.EMPTY


def test_a_group_that_comes_from_elsewhere_may_stay_as_it_is() -> None:
    kit = ClassicKit()
    group = ClassicGroup("g", kit.shard.timers, kit.now_ms)
    out = Decision()
    run_at_once(kit.shard.classic.adopt(group, out, None, kit.now_ms))
    run_at_once(kit.journal.carry_out_in_steps(out, kit.now_ms))
    assert kit.group.current is GroupState.EMPTY


def test_a_rebalance_for_a_reason_from_outside() -> None:
    kit = ClassicKit()
    (leader,) = kit.form()
    decision = run_at_once(kit.shard.classic.prepare_rebalance(kit.group, "because", kit.now_ms))
    run_at_once(kit.journal.carry_out_in_steps(decision, kit.now_ms))
    assert kit.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
