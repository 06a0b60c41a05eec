"""Expiry of offsets in steps, and what must not stop it. What expires when: see
`tests/scenarios/offsets/expiry.txt` and `test_offsets_model`."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord import expiry, offset_records
from kavka.groupcoord.offsets import OffsetToCommit
from kavka.wire.steps import run_at_once
from support.offset_groups import OffsetKit

MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS
ID, OTHER_ID = UUID(int=5), UUID(int=6)


@pytest.fixture
def kit() -> OffsetKit:
    """Offsets are scanned every minute and retained for ten."""
    kit = OffsetKit(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS)
    kit.begin()
    return kit


def test_a_step_scans_a_limited_number_of_offsets(
    kit: OffsetKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "SCANNED_PER_STEP", 10)
    for group_id in ("g", "h", "i"):
        kit.commit_offsets({("t", index): 1 for index in range(25)}, group_id)
    before = len(kit.port.batches)
    kit.advance(RETENTION_MS)
    batches = [records for records, _ in kit.port.batches[before:]]
    assert len(batches) == 8  # three groups and their offsets, ten at a time
    assert max(map(len, batches)) <= 10 + 1  # with a group's own tombstone
    assert not kit.shard.state.groups and kit.shard.offsets.store.count == 0


def test_a_step_writes_a_limited_number_of_bytes(kit: OffsetKit) -> None:
    group_id = "g" * 30_000
    kit.commit_offsets({("t", index): 1 for index in range(40)}, group_id)
    before = len(kit.port.batches)
    kit.advance(RETENTION_MS)
    sizes = [sum(len(record.key) for record in records) for records, _ in kit.port.batches[before:]]
    assert len(sizes) == 3 and max(sizes) < 600_000
    assert not kit.shard.state.groups


def test_commits_between_two_steps_count(kit: OffsetKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SCANNED_PER_STEP", 4)
    kit.commit_offsets({("t", index): index for index in range(10)})
    kit.now_ms += RETENTION_MS
    assert run_at_once(kit.journal.tick_in_steps(kit.now_ms))
    kit.commit()
    assert len(kit.offsets()) == 7  # the group was scanned as well
    kit.commit_offsets({("t", 8): 2, ("t", 0): 2})
    kit.advance(0)
    assert kit.offsets() == {("t", 8): 2, ("t", 0): 2}
    assert "g" in kit.shard.state.groups


def test_offsets_of_deleted_topics_are_deleted_in_steps(
    kit: OffsetKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "SCANNED_PER_STEP", 3)
    for group_id in ("g", "h"):
        committed = [
            OffsetToCommit("t", 0, 1, topic_id=ID),
            OffsetToCommit("t", 1, 1, topic_id=OTHER_ID),
            OffsetToCommit("t", 2, 1),
            OffsetToCommit("u", 0, 1, topic_id=OTHER_ID),
            OffsetToCommit("v", 0, 1),
        ]
        kit.commit_offsets(committed, group_id)
    kit.commit_offsets({("t", 5): 1, ("w", 0): 2}, producer_id=7)
    deleted = ["t", "v", *(f"without offsets {number}" for number in range(3))]
    kit.shard.topics_deleted([(topic, ID) for topic in deleted], kit.now_ms)
    kit.advance(0)
    for group_id in ("g", "h"):
        assert list(kit.offsets(group_id)) == [("t", 1), ("u", 0)]
    kit.end(7, committed=True)
    assert list(kit.offsets()) == [("t", 1), ("u", 0), ("w", 0)]


@pytest.mark.parametrize("pending_id", (ID, OTHER_ID))
@pytest.mark.parametrize("committed_id", (ID, OTHER_ID, None))
def test_offsets_of_a_later_topic_of_the_same_name_stay(
    kit: OffsetKit, pending_id: UUID, committed_id: UUID | None
) -> None:
    if committed_id is not None:
        kit.commit_offsets([OffsetToCommit("t", 0, 1, topic_id=committed_id)])
    kit.commit_offsets([OffsetToCommit("t", 0, 2, topic_id=pending_id)], producer_id=7)
    kit.shard.topics_deleted([("t", ID)], kit.now_ms)
    kit.advance(0)
    deleted = {pending_id, committed_id} <= {ID, None}
    assert kit.shard.offsets.pending.has("g", "t", 0) is not deleted
    assert kit.offsets() == ({("t", 0): 1} if committed_id is not None and not deleted else {})


class BrokenGroup:
    """A group that raises where it must not."""

    kind = protocol_type = "consumer"

    def check_commit(self, *args: Any, **more: Any) -> None: ...

    def committed_by(self, member_id: str, now_ms: int) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        raise ValueError("broken")


def test_a_group_that_fails_does_not_stop_the_others(
    kit: OffsetKit, caplog: pytest.LogCaptureFixture
) -> None:
    kit.shard.state.groups["broken"] = BrokenGroup()  # type: ignore[assignment]
    kit.commit_offsets({("t", 0): 1}, "broken")
    for group_id in ("after", "later"):
        kit.commit_offsets({("t", 0): 1}, group_id)
        kit.advance(RETENTION_MS)
        assert kit.offsets(group_id) == {}
    assert list(kit.offsets("broken")) == [("t", 0)]
    assert "[GroupId broken] Expiring offsets failed." in caplog.text


@pytest.mark.parametrize("of_deleted", [False, True])
def test_a_scan_that_fails_is_followed_by_another(
    kit: OffsetKit, monkeypatch: pytest.MonkeyPatch, of_deleted: bool
) -> None:
    def fail(*args: object) -> Any:
        raise TypeError

    kit.commit_offsets({("t", 0): 1, ("u", 0): 1})
    if of_deleted:
        for topic in ("t", "u"):
            kit.shard.topics_deleted([(topic, ID)], kit.now_ms)
    else:
        kit.advance(RETENTION_MS - MINUTE_MS)
        kit.now_ms += MINUTE_MS
    logger = logging.getLogger(expiry.__name__)
    with monkeypatch.context() as patched:
        patched.setattr(offset_records, "decode", fail)
        logger.addFilter(fail)  # the error is logged, which fails too
        with pytest.raises(TypeError):
            run_at_once(kit.journal.tick_in_steps(kit.now_ms))
        logger.removeFilter(fail)
    kit.advance(2 * MINUTE_MS)
    assert kit.offsets() == ({("t", 0): 1} if of_deleted else {})
