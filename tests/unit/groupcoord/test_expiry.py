"""Offsets that nobody uses any more, by example; see `test_offsets_model` for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord import expiry
from kavka.groupcoord.offsets import OffsetToCommit
from kavka.log.journal import Record
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.offset_groups import OffsetKit

MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS
ID, OTHER_ID = UUID(int=5), UUID(int=6)
GONE = Record(b"the group", None)


class GivenGroup:
    """A group in the state that a test gives it."""

    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self) -> None:
        self.since: int | None = 0
        self.subscribed: Sequence[str] = ()
        self.is_empty = True

    def check_commit(self, *args: Any, **more: Any) -> None: ...

    def committed_by(self, member_id: str, now_ms: int) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def expires_since(self) -> int | None:
        return self.since

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> Sequence[Record]:
        return [GONE]


@pytest.fixture
def kit() -> OffsetKit:
    """One minute between two looks, ten to keep offsets."""
    kit = OffsetKit(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS)
    for decision in kit.shard.loaded(kit.now_ms):
        raise AssertionError(decision)
    return kit


@pytest.fixture
def group(kit: OffsetKit) -> GivenGroup:
    """The group "g" of `kit`, with offsets of "t" and "u"."""
    made = GivenGroup()
    kit.shard.state.groups["g"] = made  # type: ignore[assignment]
    kit.commit_offsets({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    return made


def test_offsets_go_when_they_have_not_been_committed_for_so_long(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1, ("t", 1): 2})
    kit.advance(5 * MINUTE_MS)
    kit.commit_offsets({("t", 1): 3})
    kit.advance(5 * MINUTE_MS - 1)
    assert kit.offsets() == {("t", 0): 1, ("t", 1): 3}
    kit.advance(1)
    assert kit.offsets() == {("t", 1): 3}
    kit.advance(5 * MINUTE_MS - 1)
    assert kit.offsets() == {("t", 1): 3}
    assert "g" in kit.shard.state.groups
    kit.advance(1)
    assert kit.offsets() == {}
    assert kit.shard.state.groups == {}
    assert all(record.value is None for record in kit.appended[-2:])


def test_offsets_with_a_time_of_their_own(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1}, version=4, retention_ms=2 * MINUTE_MS)
    kit.commit_offsets({("t", 1): 1}, version=4, retention_ms=20 * MINUTE_MS)
    kit.advance(2 * MINUTE_MS - 1)
    assert list(kit.offsets()) == [("t", 0), ("t", 1)]
    kit.advance(1)
    assert list(kit.offsets()) == [("t", 1)]
    kit.advance(18 * MINUTE_MS - 1)
    assert list(kit.offsets()) == [("t", 1)]
    kit.advance(1)
    assert kit.offsets() == {}


def test_offsets_count_from_the_time_when_a_group_became_empty(
    kit: OffsetKit, group: GivenGroup
) -> None:
    """KIP-211."""
    group.since = kit.now_ms + 5 * MINUTE_MS
    kit.advance(15 * MINUTE_MS - 1)
    assert len(kit.offsets()) == 3
    kit.advance(1)
    assert kit.offsets() == {}
    assert kit.appended[-1] == GONE


def test_offsets_of_a_group_in_use_stay(kit: OffsetKit, group: GivenGroup) -> None:
    group.since, group.is_empty = None, False
    kit.advance(3 * RETENTION_MS)
    assert len(kit.offsets()) == 3


def test_topics_that_members_read_no_longer(kit: OffsetKit, group: GivenGroup) -> None:
    group.subscribed, group.is_empty = ["t"], False
    kit.advance(RETENTION_MS)
    assert list(kit.offsets()) == [("t", 0), ("t", 1)]
    assert GONE not in kit.appended


def test_a_group_whose_offsets_are_gone_stays_while_it_has_members(
    kit: OffsetKit, group: GivenGroup
) -> None:
    group.is_empty = False
    kit.advance(RETENTION_MS)
    assert kit.offsets() == {}
    assert GONE not in kit.appended
    group.is_empty = True
    kit.advance(MINUTE_MS)
    assert kit.appended[-1] == GONE


def test_offsets_in_open_transactions_keep_what_they_replace(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1, ("t", 1): 2})
    kit.commit_offsets({("t", 0): 5}, producer_id=7)
    kit.advance(2 * RETENTION_MS)
    assert kit.offsets() == {("t", 0): 1}
    kit.end(7, committed=False)
    kit.advance(MINUTE_MS)
    assert kit.offsets() == {} and not kit.shard.state.groups


def test_a_group_that_has_only_an_open_transaction_stays(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 5}, producer_id=7)
    kit.advance(2 * RETENTION_MS)
    assert "g" in kit.shard.state.groups
    kit.end(7, committed=False)
    kit.advance(MINUTE_MS)
    assert not kit.shard.state.groups


def test_no_step_does_much(kit: OffsetKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SCANNED_A_STEP", 10)
    for group_id in ("g", "h", "i"):
        kit.commit_offsets({("t", index): 1 for index in range(25)}, group_id)
    before = len(kit.port.batches)
    kit.advance(RETENTION_MS)
    batches = [records for records, _ in kit.port.batches[before:]]
    assert len(batches) == 8  # three groups and their offsets, ten at a time
    assert max(map(len, batches)) <= 10 + 1  # with a group's own tombstone
    assert not kit.shard.state.groups and kit.shard.offsets.store.count == 0


def test_no_step_writes_much(kit: OffsetKit) -> None:
    group_id = "g" * 30_000
    kit.commit_offsets({("t", index): 1 for index in range(40)}, group_id)
    before = len(kit.port.batches)
    kit.advance(RETENTION_MS)
    sizes = [sum(len(one.key) for one in records) for records, _ in kit.port.batches[before:]]
    assert len(sizes) == 3 and max(sizes) < 600_000
    assert not kit.shard.state.groups


def test_what_happens_between_two_steps_counts(
    kit: OffsetKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "SCANNED_A_STEP", 4)
    kit.commit_offsets({("t", index): 1 for index in range(10)})
    kit.now_ms += RETENTION_MS
    assert run_at_once(kit.journal.tick_in_steps(kit.now_ms))
    kit.commit()
    assert len(kit.offsets()) == 7  # the group was looked at as well
    kit.commit_offsets({("t", 8): 2, ("t", 0): 2})
    kit.advance(0)
    assert kit.offsets() == {("t", 8): 2, ("t", 0): 2}
    assert "g" in kit.shard.state.groups


def test_a_new_setting_counts_from_the_next_look_on(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1})
    kit.settings.offsets_retention_minutes = 3
    kit.advance(3 * MINUTE_MS)
    assert kit.offsets() == {}


def test_offsets_of_deleted_topics(kit: OffsetKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SCANNED_A_STEP", 3)
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
    kit.shard.topics_deleted([("t", ID), ("v", ID), ("not read", ID)], kit.now_ms)
    kit.advance(0)
    for group_id in ("g", "h"):
        assert list(kit.offsets(group_id)) == [("t", 1), ("u", 0)]
    kit.end(7, committed=True)
    assert list(kit.offsets()) == [("t", 1), ("u", 0), ("w", 0)]


@pytest.mark.parametrize("pending_id", (ID, OTHER_ID))
@pytest.mark.parametrize("counting_id", (ID, OTHER_ID, None))
def test_offsets_of_the_next_topic_of_that_name_stay(
    kit: OffsetKit, pending_id: UUID, counting_id: UUID | None
) -> None:
    if counting_id is not None:
        kit.commit_offsets([OffsetToCommit("t", 0, 1, topic_id=counting_id)])
    kit.commit_offsets([OffsetToCommit("t", 0, 2, topic_id=pending_id)], producer_id=7)
    kit.shard.topics_deleted([("t", ID)], kit.now_ms)
    kit.advance(0)
    old = {pending_id, counting_id} <= {ID, None}
    assert kit.shard.offsets.pending.has("g", "t", 0) is not old
    assert kit.offsets() == ({("t", 0): 1} if counting_id is not None and not old else {})


def test_topics_that_are_deleted_one_after_another(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1, ("u", 0): 1, ("v", 0): 1})
    kit.shard.topics_deleted([("t", ID)], kit.now_ms)
    kit.shard.topics_deleted([("u", ID)], kit.now_ms)
    kit.advance(0)
    assert list(kit.offsets()) == [("v", 0)]


class BrokenGroup(GivenGroup):
    """A group that raises where it must not."""

    def expires_since(self) -> int | None:
        raise ValueError("broken")


def test_a_group_that_fails_keeps_no_other_from_expiring(
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
def test_after_a_look_that_fails_there_is_another(
    kit: OffsetKit, monkeypatch: pytest.MonkeyPatch, of_deleted: bool
) -> None:
    kit.commit_offsets({("t", 0): 1, ("u", 0): 1})
    if of_deleted:
        for topic in ("t", "u"):
            kit.shard.topics_deleted([(topic, ID)], kit.now_ms)
    else:
        kit.advance(RETENTION_MS - MINUTE_MS)
        kit.now_ms += MINUTE_MS
    with monkeypatch.context() as patched:
        fail = "_delete_group_offsets_of" if of_deleted else "_expire_group"
        patched.setattr(expiry.Expiry, fail, None)
        patched.setattr(expiry.logger, "exception", None)
        with pytest.raises(TypeError):
            run_at_once(kit.journal.tick_in_steps(kit.now_ms))
    kit.advance(2 * MINUTE_MS)
    assert kit.offsets() == ({("t", 0): 1} if of_deleted else {})
