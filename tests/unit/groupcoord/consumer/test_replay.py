"""Records in any order, as in a compacted log, and records that can't be applied."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

import pytest

from kavka.groupcoord.consumer import consumer_group_records, replay
from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.group_index import GroupIndex
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.log.journal import JournalRecord
from kavka.wire.steps import run_at_once
from support.consumer_groups import ConsumerKit, contents

T = UUID(int=1)
MEMBER = ConsumerGroupMember("m", topic_names=("t",))
OWNING = replace(MEMBER, member_epoch=2, previous_member_epoch=1, assigned={T: {0: 2}})
ALL = (
    run_at_once(consumer_group_records.member_in_steps("g", MEMBER)),
    consumer_group_records.group("g", 2, 7),
    run_at_once(consumer_group_records.target_member_in_steps("g", "m", {T: (0,)})),
    consumer_group_records.target("g", 2, 9),
    run_at_once(consumer_group_records.current_member_in_steps("g", OWNING)),
    consumer_group_records.regex("g", "x", Resolved(("u",), 1, 2)),
    JournalRecord(
        consumer_group_records.tombstone(consumer_group_records.TOPICS, "g").key, b"\0\0\1\0"
    ),
)


def replayed(*of: JournalRecord) -> GroupIndex:
    index = GroupIndex(ConsumerKit().shard.state)
    for record in of:
        replay.apply(index, record)
    return index


def test_the_records_of_a_group() -> None:
    group = replayed(*ALL).group("g")
    assert group.members == {"m": OWNING}
    assert (group.group_epoch, group.metadata_hash) == (2, 7)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (2, 9)
    assert group.targets == {"m": {T: (0,)}}
    assert group.has_owner(T, 0)
    assert group.resolved == {"x": Resolved(("u",), 1, 2)}
    assert group.has_topics_record
    assert list(group.subscriptions) == ["t", "u"]
    forward, back = (contents(replayed(*of).group("g")) for of in (ALL, ALL[::-1]))
    assert forward.pop("subscriptions").keys() == back.pop("subscriptions").keys()
    assert forward == back, "the order makes no difference"


def test_tombstones_of_a_member() -> None:
    group = replayed(*ALL, *consumer_group_records.without_member("g", "m")).group("g")
    assert (group.members, group.targets, group.owners) == ({}, {}, {})


def test_tombstones_of_a_group() -> None:
    gone = consumer_group_records.without_group("g", ["m"], ["x"])
    for known in (ALL, ()):
        assert replayed(*known, *gone).state.groups == {}


@pytest.mark.parametrize(
    "gone",
    [
        consumer_group_records.without_group("g", ["m"], ["x"]),
        [consumer_group_records.tombstone(consumer_group_records.GROUP, "g")],
    ],
    ids=["all records", "the group before its members"],
)
def test_a_deleted_group_subscribes_to_no_topics(gone: list[JournalRecord]) -> None:
    index = replayed(*ALL, *gone, consumer_group_records.group("g", 1, 0))
    group = index.group("g")
    group.refresh_topics = False
    list(index.topics_changed(["t", "u"], 1))
    assert not group.refresh_topics


def test_a_group_that_only_stores_offsets_is_replaced() -> None:
    kit = ConsumerKit()
    kit.shard.state.groups["g"] = kit.shard.classic.simple_group("g")
    index = GroupIndex(kit.shard.state)
    replay.apply(index, consumer_group_records.tombstone(consumer_group_records.GROUP, "g"))
    assert kit.find_consumer_group() is None
    replay.apply(index, ALL[0])
    assert kit.find_consumer_group() is not None


@pytest.mark.parametrize(
    "record",
    [
        JournalRecord(b"\0\3", b"\0\0"),
        JournalRecord(b"\0\3\0\1g", b"\0\1\0\0\0\1\0"),
        JournalRecord(b"\0\5\0\1g\0\1m", b"\0\0"),
        JournalRecord(b"\0\3\0\1\xff", b""),
    ],
)
def test_a_malformed_record_is_logged_and_skipped(
    record: JournalRecord, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        index = replayed(*ALL, record)
    assert index.group("g").members == {"m": OWNING}
    assert len(caplog.records) == 1


def test_a_record_of_a_classic_group_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    kit = ConsumerKit()
    kit.form()
    index = GroupIndex(kit.shard.state)
    before = kit.shard.state.groups["g"]
    replay.apply(index, ALL[0])
    replay.apply(index, consumer_group_records.tombstone(consumer_group_records.MEMBER, "g", "m"))
    assert kit.shard.state.groups["g"] is before
    assert len(caplog.records) == 1
