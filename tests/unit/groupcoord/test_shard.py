"""The machine of a partition: what it hands to whom."""

from __future__ import annotations

import pytest

from kavka.groupcoord.classic.records import encode_key
from kavka.groupcoord.expiry import SWEEP
from kavka.groupcoord.shard import BATCH_REPLAY_MIN
from kavka.log.journal import Decision, Record
from support.classic_groups import SESSION_MS
from support.offset_groups import OffsetKit


@pytest.fixture
def kit() -> OffsetKit:
    return OffsetKit()


def test_records_of_the_future_are_skipped_and_told_of_once(
    kit: OffsetKit, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (9, 300, 9, 9):
        record = Record(version.to_bytes(2, "big") + b"key", b"value")
        kit.shard.apply(record, None)
        kit.shard.replay([record.key], [record.value])
    assert [record.args for record in caplog.records] == [(9,), (300,)]
    assert not kit.shard.state.groups


def test_keys_too_short_for_a_version_are_skipped(kit: OffsetKit) -> None:
    for key in (b"", b"\1"):
        kit.shard.apply(Record(key, b"value"), None)
        kit.shard.replay([key], [None])
    assert not kit.shard.state.groups


def test_groups_and_offsets_are_replayed_together(kit: OffsetKit) -> None:
    (member_id,) = kit.form()
    kit.commit_offsets({("t", 0): 5}, member_id=member_id, generation=1)
    kit.commit_offsets({("t", 0): 6}, "simple")
    kit.delete_group("simple")
    kit.move()
    assert list(kit.shard.state.groups) == ["g"]
    assert list(kit.group.members) == [member_id]
    assert kit.offsets() == {("t", 0): 5}


def test_many_records_of_one_decision_are_applied_in_order(kit: OffsetKit) -> None:
    places = [("t", index) for index in range(2 * BATCH_REPLAY_MIN)]
    kit.commit_offsets(dict.fromkeys(places, 1))
    kit.commit_offsets({place: index for index, place in enumerate(places)})
    assert kit.offsets() == {place: place[1] for place in places}
    kit.delete_offsets(places[1:])
    assert kit.offsets() == {places[0]: 0}
    kit.commit_offsets(dict.fromkeys(places[1:], 2))
    assert kit.offsets() == {places[0]: 0, **dict.fromkeys(places[1:], 2)}
    assert kit.shard.offsets.store.count == len(places)


def test_a_group_s_record_among_many_is_the_one_that_was_decided(kit: OffsetKit) -> None:
    """A classic group knows its own record as that object, and changes nothing else for it."""
    kit.commit_offsets({("t", index): 1 for index in range(BATCH_REPLAY_MIN)}, "simple")
    offsets = list(kit.appended)
    out, seen = Decision(offsets), []
    record = Record(encode_key("g"), b"not to be read")
    kit.shard.classic._proposals.propose(out, record, done=lambda: seen.append(record))
    kit.shard.apply_all(out.records, None)
    assert seen == [record]


def test_many_records_of_a_transaction_count_when_it_ends(kit: OffsetKit) -> None:
    places = [("t", index) for index in range(BATCH_REPLAY_MIN)]
    kit.commit_offsets(dict.fromkeys(places, 1))
    kit.commit_offsets(dict.fromkeys(places, 2), producer_id=7)
    assert kit.offsets() == dict.fromkeys(places, 1)
    kit.end(7, committed=True)
    assert kit.offsets() == dict.fromkeys(places, 2)


def test_a_group_s_tombstone_leaves_offsets_that_have_none(kit: OffsetKit) -> None:
    """They are nobody's until a group of that name comes again."""
    kit.commit_offsets({("t", 0): 5})
    kit.shard.apply(Record(encode_key("g"), None), None)
    assert "g" not in kit.shard.state.groups
    kit.shard.replay([kit.appended[0].key], [kit.appended[0].value])
    assert "g" in kit.shard.state.groups


def test_deadlines_go_to_those_who_set_them(kit: OffsetKit) -> None:
    (member_id,) = kit.form()
    list(kit.shard.loaded(kit.now_ms))
    assert SWEEP in kit.shard.timers
    kit.advance(SESSION_MS)
    assert member_id not in kit.group.members
    kit.advance(kit.settings.offsets_retention_check_interval_ms)
    assert not kit.shard.state.groups, "it is empty, and has no offsets"
    assert SWEEP in kit.shard.timers


def test_those_who_wait_are_told_when_it_ends(kit: OffsetKit) -> None:
    _, joining = kit.join_twice()
    assert kit.shard.resign() == [joining]
