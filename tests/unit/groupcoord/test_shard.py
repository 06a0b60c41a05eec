"""The machine of a partition: its parts get their records and timers."""

from __future__ import annotations

import pytest

from kavka.groupcoord.shard import BATCH_REPLAY_MIN
from kavka.log.journal import JournalRecord
from support.offset_groups import OffsetKit


@pytest.fixture
def kit() -> OffsetKit:
    return OffsetKit()


def test_records_of_unknown_versions_are_skipped_and_logged_once(
    kit: OffsetKit, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (9, 300, 9, 9):
        record = JournalRecord(version.to_bytes(2, "big") + b"key", b"value")
        kit.shard.apply(record, None)
        kit.shard.replay([record.key], [record.value])
    for key in (b"", b"\1"):  # too short for a version
        kit.shard.apply(JournalRecord(key, b"value"), None)
        kit.shard.replay([key], [None])
    unknown = [record.args for record in caplog.records if "key version" in record.msg]
    assert unknown == [(9,), (300,)]
    assert not kit.shard.state.groups


def test_many_records_of_one_decision_are_applied_in_order(kit: OffsetKit) -> None:
    partitions = [("t", index) for index in range(2 * BATCH_REPLAY_MIN)]
    kit.commit_offsets(dict.fromkeys(partitions, 1))
    kit.commit_offsets({partition: index for index, partition in enumerate(partitions)})
    assert kit.offsets() == {partition: partition[1] for partition in partitions}
    kit.delete_offsets(partitions[1:])
    assert kit.offsets() == {partitions[0]: 0}
    kit.commit_offsets(dict.fromkeys(partitions[1:], 2))
    assert kit.offsets() == {partitions[0]: 0, **dict.fromkeys(partitions[1:], 2)}
    assert kit.shard.offsets.store.count == len(partitions)


def test_many_records_of_a_transaction_are_visible_when_it_ends(kit: OffsetKit) -> None:
    partitions = [("t", index) for index in range(BATCH_REPLAY_MIN)]
    kit.commit_offsets(dict.fromkeys(partitions, 1))
    kit.commit_offsets(dict.fromkeys(partitions, 2), producer_id=7)
    assert kit.offsets() == dict.fromkeys(partitions, 1)
    kit.end(7, committed=True)
    assert kit.offsets() == dict.fromkeys(partitions, 2)


def test_a_replay_of_offsets_creates_their_group(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 5})
    again = kit.new_shard()
    again.replay([kit.appended[0].key], [kit.appended[0].value])
    assert "g" in again.state.groups


def test_waiting_requests_are_returned_when_the_shard_resigns(kit: OffsetKit) -> None:
    _, joining = kit.join_twice()
    assert kit.shard.resign() == [joining]
