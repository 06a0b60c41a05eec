"""Committing, asking for and deleting offsets, by example; see `test_offsets_model` for more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.classic.records import encode_key
from kavka.groupcoord.group import PartitionCheck
from kavka.groupcoord.offset_records import NO_TIME, decode, partition_key, topic_key
from kavka.groupcoord.offsets import FetchedOffset, OffsetToCommit, is_too_long
from kavka.log.journal import Record
from kavka.wire.errors import ApiError, ErrorCode
from support.journal_kit import START_MS
from support.offset_groups import OffsetKit
from support.refusals import refusal

ID, OTHER_ID = UUID(int=5), UUID(int=6)


class StrictGroup:
    """A group that lets nobody do anything, but for what a test allows."""

    kind = "consumer"
    protocol_type = "consumer"
    group_id = "g"

    def __init__(self) -> None:
        self.commit_refusal: ErrorCode | None = None
        self.fetch_refusal: ErrorCode | None = None
        self.check: PartitionCheck | None = None
        self.subscribed: Sequence[str] = ()
        self.asked: list[Any] = []

    def check_commit(self, *args: Any, **more: Any) -> PartitionCheck | None:
        self.asked.append((*args, more))
        if self.commit_refusal is not None:
            raise ApiError(self.commit_refusal)
        return self.check

    def committed_by(self, member_id: str, now_ms: int) -> None:
        self.asked.append((member_id, now_ms))

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self.asked.append((member_id, member_epoch))
        if self.fetch_refusal is not None:
            raise ApiError(self.fetch_refusal)

    def check_offset_delete(self) -> None:
        if self.commit_refusal is not None:
            raise ApiError(self.commit_refusal)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed


@pytest.fixture
def kit() -> OffsetKit:
    return OffsetKit()


@pytest.fixture
def group(kit: OffsetKit) -> StrictGroup:
    """The group "g" of `kit`."""
    made = StrictGroup()
    kit.shard.state.groups["g"] = made  # type: ignore[assignment]
    return made


# Committing.


def test_a_commit_outside_of_a_group_makes_one(kit: OffsetKit) -> None:
    assert kit.commit_offsets({("t", 0): 5, ("t", 1): 6, ("u", 0): 7}) == [0, 0, 0]
    assert kit.offsets() == {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}
    group = kit.shard.state.groups["g"]
    assert (group.kind, group.protocol_type, group.state(0)) == ("classic", "", "Empty")


def test_what_comes_with_an_offset_is_told(kit: OffsetKit) -> None:
    kit.commit_offsets([OffsetToCommit("t", 0, 5, 3, "a note ä", ID)])
    assert kit.fetch("t", 0) == FetchedOffset(0, 5, 3, "a note ä")
    kit.commit_offsets([OffsetToCommit("t", 0, 6, -1, None, ID)])
    assert kit.fetch("t", 0) == FetchedOffset(0, 6, -1, "")


def test_times_of_a_commit(kit: OffsetKit) -> None:
    kit.commit_offsets([OffsetToCommit("t", 0, 5), OffsetToCommit("t", 1, 5, timestamp_ms=77)])
    kit.commit_offsets({("t", 2): 5}, version=2, retention_ms=1000)
    found = [decode(record.value or b"") for record in kit.appended]
    times = [(one.committed_at_ms, one.expires_at_ms) for one in found if one is not None]
    assert times == [(START_MS, NO_TIME), (77, NO_TIME), (START_MS, START_MS + 1000)]


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_a_group_that_is_not_there(
    kit: OffsetKit, version: int, code: ErrorCode
) -> None:
    commit: Callable[..., Any] = kit.commit_offsets
    assert refusal(commit, {("t", 0): 1}, generation=0, version=version) == code
    assert not kit.appended


def test_the_group_is_asked_and_told(kit: OffsetKit, group: StrictGroup) -> None:
    kit.commit_offsets({("t", 0): 1}, member_id="m", instance_id="i", generation=3, version=7)
    assert group.asked == [
        ("m", "i", 3, {"is_transactional": False, "version": 7}),
        ("m", START_MS),
    ]
    group.commit_refusal = ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(kit.commit_offsets, {("t", 0): 2}) == ErrorCode.REBALANCE_IN_PROGRESS
    assert kit.offsets() == {("t", 0): 1}


def test_one_partition_that_may_not_be_committed_stops_all(
    kit: OffsetKit, group: StrictGroup
) -> None:
    """KIP-1251: a member whose epoch is behind may commit what it had then."""
    asked = []

    def check(topic: str, topic_id: UUID, partition: int) -> None:
        asked.append((topic, topic_id, partition))
        if partition == 1:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    group.check = check
    offsets = [OffsetToCommit("t", 0, 5, topic_id=ID)]
    assert kit.commit_offsets(offsets) == [0]
    assert asked == [("t", ID, 0)]
    offsets.append(OffsetToCommit("t", 1, 5, topic_id=ID))
    assert refusal(kit.commit_offsets, offsets) == ErrorCode.STALE_MEMBER_EPOCH
    in_transaction: Any = lambda: kit.commit_offsets(offsets, producer_id=7)  # noqa: E731
    assert refusal(in_transaction) == ErrorCode.ILLEGAL_GENERATION
    asked.clear()
    kit.settings.offset_metadata_max_bytes = 3
    offsets[1] = OffsetToCommit("t", 1, 5, metadata="long", topic_id=ID)
    assert kit.commit_offsets(offsets) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert asked == [("t", ID, 0)], "what is not committed is not asked about"


def test_metadata_that_is_too_long_stops_only_its_partition(kit: OffsetKit) -> None:
    kit.settings.offset_metadata_max_bytes = 10
    offsets = [OffsetToCommit("t", index, 5, metadata="m" * (9 + index)) for index in range(3)]
    assert kit.commit_offsets(offsets) == [0, 0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert list(kit.offsets()) == [("t", 0), ("t", 1)]
    assert kit.commit_offsets(offsets[2:]) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_the_length_of_metadata_is_what_java_counts() -> None:
    assert not is_too_long("ä" * 10, 10)
    assert is_too_long("ä" * 11, 10)
    assert not is_too_long("\U0001f600" * 5, 10)
    assert is_too_long("\U0001f600" * 5 + "x", 10)
    assert is_too_long("x", 0) and not is_too_long("", 0)


@pytest.mark.parametrize("retention_ms", (2**63 - 1, 2**63 - 1 - START_MS, -(2**63)))
def test_a_retention_beyond_all_times(kit: OffsetKit, retention_ms: int) -> None:
    kit.commit_offsets({("t", 0): 5}, version=2, retention_ms=retention_ms)
    value = kit.appended[-1].value
    assert value is not None
    committed = decode(value)
    assert committed is not None
    assert committed.expires_at_ms == min(START_MS + retention_ms, 2**63 - 1)


def test_what_does_not_fit_into_a_record(kit: OffsetKit) -> None:
    kit.settings.offset_metadata_max_bytes = 1_000_000
    longest = "\N{EURO SIGN}" * 10_922 + "e"  # 32,767 bytes, which is what a string may have
    offsets = [
        OffsetToCommit("t", 0, 1, metadata=longest),
        OffsetToCommit("t", 1, 1, metadata=longest + "e"),
    ]
    for retention_ms in (-1, 1000):
        codes = kit.commit_offsets(offsets, longest, version=2, retention_ms=retention_ms)
        assert codes == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert kit.fetch("t", 0, longest).metadata == longest
    for producer_id in (None, 5):
        with pytest.raises(ApiError) as failure:
            kit.commit_offsets({("t", 0): 5}, longest + "e", producer_id=producer_id)
        assert failure.value.code == ErrorCode.INVALID_GROUP_ID


def test_nothing_is_kept_if_it_can_t_be_written(kit: OffsetKit) -> None:
    kit.port.failures.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refusal(kit.commit_offsets, {("t", 0): 1}) == ErrorCode.NOT_COORDINATOR
    assert not kit.offsets() and not kit.shard.state.groups


def test_the_answer_waits_until_it_is_committed(kit: OffsetKit) -> None:
    kit.holds = True
    ticket = kit.commit_offsets({("t", 0): 1})
    assert not ticket.settled
    kit.commit()
    assert ticket.answer == [0]


# In transactions.


def test_offsets_of_a_transaction_count_when_it_is_committed(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1})
    assert kit.commit_offsets({("t", 0): 2, ("t", 1): 3}, producer_id=7) == [0, 0]
    assert kit.offsets() == {("t", 0): 1}
    unstable = FetchedOffset(1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert kit.fetch("t", 1, require_stable=True) == unstable
    assert kit.fetch("t", 1) == FetchedOffset(1)
    assert kit.fetch("t", 2, require_stable=True) == FetchedOffset(2)
    kit.end(7, committed=True)
    assert kit.offsets() == {("t", 0): 2, ("t", 1): 3}
    assert kit.fetch("t", 1, require_stable=True).offset == 3


def test_and_not_if_it_is_aborted(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 2}, producer_id=7)
    assert "g" in kit.shard.state.groups
    kit.end(7, committed=False)
    assert kit.offsets() == {}


def test_a_transaction_that_outlives_its_group(kit: OffsetKit) -> None:
    """Apache Kafka deletes a group that has only pending offsets; they count all the same."""
    kit.commit_offsets({("t", 0): 5}, producer_id=7)
    kit.shard.apply(Record(encode_key("g"), None), None)
    kit.end(7, committed=True)
    assert kit.shard.offsets.check_fetch("g", None, -1)
    assert kit.offsets() == {("t", 0): 5}


def test_members_in_transactions(kit: OffsetKit, group: StrictGroup) -> None:
    commit: Any = lambda: kit.commit_offsets(  # noqa: E731
        {("t", 0): 1}, member_id="m", generation=3, version=3, producer_id=7
    )
    commit()
    assert group.asked == [("m", None, 3, {"is_transactional": True, "version": 3})]
    for code, told in (
        (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        group.commit_refusal = code
        assert refusal(commit) == told
    del kit.shard.state.groups["g"]
    assert refusal(commit) == ErrorCode.ILLEGAL_GENERATION


# Asking.


def test_members_that_ask(kit: OffsetKit, group: StrictGroup) -> None:
    offsets = kit.shard.offsets
    assert offsets.check_fetch("g", "m", 4)
    assert group.asked == [("m", 4)]
    assert not offsets.check_fetch("nobody", None, -1)
    group.fetch_refusal = ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(offsets.check_fetch, "g", "m", 3) == ErrorCode.STALE_MEMBER_EPOCH
    group.fetch_refusal = ErrorCode.GROUP_ID_NOT_FOUND
    assert not offsets.check_fetch("g", "m", 3)


def test_offsets_of_an_earlier_topic_of_the_same_name(kit: OffsetKit) -> None:
    kit.commit_offsets([OffsetToCommit("t", 0, 5, topic_id=ID), OffsetToCommit("t", 1, 6)])
    assert kit.fetch("t", 0, topic_id=ID).offset == 5
    assert kit.fetch("t", 0, topic_id=OTHER_ID) == FetchedOffset(0)
    assert kit.fetch("t", 0).offset == 5
    assert kit.fetch("t", 1, topic_id=OTHER_ID).offset == 6


# Deleting.


def test_offsets_are_deleted(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    kit.commit_offsets({("u", 1): 4}, producer_id=7)
    before = len(kit.appended)
    assert kit.delete_offsets([("t", 0), ("t", 5), ("u", 1)]) == [0, 0, 0]
    assert kit.offsets() == {("t", 1): 2, ("u", 0): 3}
    deleted = [partition_key(topic_key("g", "t"), 0), partition_key(topic_key("g", "u"), 1)]
    assert kit.appended[before:] == [Record(key, None) for key in deleted]
    kit.end(7, committed=True)
    assert ("u", 1) not in kit.offsets()


def test_what_members_read_is_not_deleted(kit: OffsetKit, group: StrictGroup) -> None:
    kit.commit_offsets({("t", 0): 1, ("u", 0): 3})
    group.subscribed = ["t"]
    codes = kit.delete_offsets([("t", 0), ("u", 0)])
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert kit.offsets() == {("t", 0): 1}
    group.commit_refusal = ErrorCode.NON_EMPTY_GROUP
    assert refusal(kit.delete_offsets, [("t", 0)]) == ErrorCode.NON_EMPTY_GROUP


def test_a_group_that_is_not_there_has_nothing_to_delete(kit: OffsetKit) -> None:
    assert refusal(kit.delete_offsets, [("t", 0)]) == ErrorCode.GROUP_ID_NOT_FOUND


# Records.


@pytest.mark.parametrize(
    "record",
    [
        Record(b"\0\1", b"value"),
        Record(b"\0\1\0\1g\0\1t", None),
        Record(partition_key(topic_key("g", "t"), 0), b"\0\4"),
        Record(partition_key(topic_key("g", "t"), 0), b"\0\x09 of the future"),
        Record(b"\0\1\0\1\xff\0\1t\0\0\0\0", b""),
    ],
)
def test_records_that_can_t_be_read_change_nothing(
    kit: OffsetKit, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    kit.commit_offsets({("t", 0): 1})
    kit.shard.apply(record, None)
    kit.shard.replay([record.key], [record.value])
    assert kit.offsets() == {("t", 0): 1}
    assert len(caplog.records) == 2


def test_a_key_of_the_first_version_is_read(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1})
    (record,) = kit.appended
    old = Record(
        b"\0\0" + record.key[2:], bytes.fromhex("0000" + "00" * 7 + "09" + "0000" + "00" * 8)
    )
    kit.shard.replay([old.key], [old.value])
    assert kit.fetch("t", 0).offset == 9
    kit.shard.apply(Record(old.key, None), None)
    assert kit.offsets() == {}
