"""Records of classic groups as they are applied and loaded, and conversions from and to consumer
groups. Requests are in tests/scenarios/classic_groups."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.group import ClassicGroup, GroupState, empty_group_record
from kavka.groupcoord.classic.group_records import encode_key, tombstone
from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import ITEMS_PER_STEP, run_at_once
from support.classic_groups import RANGE, SESSION_MS, ClassicKit, big_group
from support.steps import stops_of

UNREADABLE = "Skipped the record of group g: it can't be read."


def test_a_tombstone_removes_a_group_and_its_timers() -> None:
    kit = ClassicKit()
    (member_id,) = kit.form()
    kit.join()
    for _ in range(2):
        kit.shard.apply(tombstone("g"), None)
        assert not kit.shard.state.groups
        assert len(kit.shard.timers) == 0
    assert kit.beat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_unreadable_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    kit = ClassicKit()
    kit.shard.apply(JournalRecord(encode_key("g"), b"\0\x09what?"), None)
    kit.shard.apply(JournalRecord(b"\0\2\0\x09g", b""), None)
    assert not kit.shard.state.groups
    assert caplog.messages == [UNREADABLE]


def test_a_group_whose_record_is_truncated_only_stores_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kit = ClassicKit()
    kit.form()
    key, value = kit.appended[-1]
    kit.shard.apply(JournalRecord(key, (value or b"")[:-1]), None)
    assert not list(kit.shard.loaded(kit.now_ms))
    assert (kit.group.current, kit.group.protocol_type) == (GroupState.EMPTY, "")
    assert UNREADABLE in caplog.messages


def test_a_big_group_is_loaded_with_pauses() -> None:
    kit = ClassicKit()
    record = run_at_once(big_group(kit, 2 * ITEMS_PER_STEP).record())
    kit.shard.replay([record.key] * 3, [record.value] * 3)
    assert not kit.group.members, "only the last record counts, and is read at the end"
    pauses, _ = stops_of(kit.shard.classic.decode_replayed())
    assert pauses >= 4, "two each to decode it and to add the members"
    assert len(kit.group.members) == 2 * ITEMS_PER_STEP
    kit.shard.replay([record.key], [record.value])
    sessions = 2
    assert len(list(kit.shard.loaded(kit.now_ms))) >= 4 + sessions


def test_many_small_groups_are_loaded_with_pauses() -> None:
    kit = ClassicKit()
    value = run_at_once(big_group(kit, 1).record()).value
    keys = [encode_key(f"g{number}") for number in range(ITEMS_PER_STEP)]
    kit.shard.replay(keys, [value] * len(keys))
    pauses, _ = stops_of(kit.shard.classic.decode_replayed())
    assert pauses >= 4
    assert {group.state(kit.now_ms) for group in kit.shard.state.groups.values()} == {"Stable"}


def test_the_last_record_counts() -> None:
    kit = ClassicKit()
    record = run_at_once(big_group(kit, 2).record())
    kit.shard.replay([record.key] * 2, [record.value, None])
    assert not list(kit.shard.loaded(kit.now_ms))
    assert not kit.shard.state.groups


def test_a_record_replaces_the_group() -> None:
    kit = ClassicKit()
    kit.form()
    kit.shard.apply(empty_group_record(ClassicGroup("g", kit.shard.timers, 5)), None)
    run_at_once(kit.shard.classic.decode_replayed())
    group = kit.group
    assert (group.current, group.since_ms, group.generation) == (GroupState.EMPTY, 5, 0)


def test_waiting_requests_fail_and_sessions_are_reset_before_a_conversion() -> None:
    kit = ClassicKit()
    leader, _ = kit.form(RANGE, RANGE)
    join = kit.join(leader)
    kit.advance(SESSION_MS - 1)
    code = ErrorCode.REBALANCE_IN_PROGRESS
    (reply,) = kit.shard.classic.fail_waiting_requests(kit.group, code, kit.now_ms)
    assert (reply.future, reply.response.member_id, reply.response.error_code) == (
        join,
        leader,
        code,
    )
    kit.advance(SESSION_MS - 1)
    assert list(kit.group.members) == [leader]
    kit.advance(1)
    assert kit.group.current is GroupState.EMPTY


def adopt(kit: ClassicKit, group: ClassicGroup, reason: str | None) -> None:
    out = Decision()
    run_at_once(kit.shard.classic.adopt(group, out, reason, kit.now_ms))
    assert not kit.shard.state.groups, "it is not stored yet"
    kit.execute(out)
    assert kit.group is group


def test_a_converted_group_with_members_is_rebalanced() -> None:
    kit = ClassicKit()
    group = big_group(kit, 1)
    adopt(kit, group, "because")
    assert kit.beat("m0", 0) is ErrorCode.REBALANCE_IN_PROGRESS
    stored = kit.replayed().state.groups["g"]
    assert (stored.state(0), stored.protocol_type) == ("Stable", "consumer")
    kit.advance(SESSION_MS)
    assert group.current is GroupState.EMPTY


def test_a_converted_group_is_not_rebalanced_without_a_reason() -> None:
    kit = ClassicKit()
    adopt(kit, ClassicGroup("g", kit.shard.timers, kit.now_ms), None)
    assert kit.group.current is GroupState.EMPTY
