"""Times and sizes of committed offsets, and records that can't be read. For the rest see
`tests/scenarios/offsets` and `test_offsets_model`."""

from __future__ import annotations

import pytest

from kavka.groupcoord.offset_records import CommittedOffset, decode, partition_key, topic_key
from kavka.groupcoord.offsets import OffsetToCommit, is_too_long
from kavka.log.journal import JournalRecord
from kavka.wire.errors import ApiError, ErrorCode
from support.error_codes import error_code_of
from support.journal_kit import START_MS
from support.offset_groups import OffsetKit


@pytest.fixture
def kit() -> OffsetKit:
    return OffsetKit()


def written(kit: OffsetKit) -> list[CommittedOffset]:
    found = [decode(record.value or b"") for record in kit.appended]
    return [committed for committed in found if committed is not None]


def test_times_of_a_commit(kit: OffsetKit) -> None:
    kit.commit_offsets([OffsetToCommit("t", 0, 5), OffsetToCommit("t", 1, 5, timestamp_ms=77)])
    kit.commit_offsets({("t", 2): 5}, version=2, retention_ms=1000)
    times = [(committed.committed_at_ms, committed.expires_at_ms) for committed in written(kit)]
    assert times == [(START_MS, -1), (77, -1), (START_MS, START_MS + 1000)]


@pytest.mark.parametrize("retention_ms", (2**63 - 1, 2**63 - 1 - START_MS, -(2**63)))
def test_a_retention_time_beyond_all_times(kit: OffsetKit, retention_ms: int) -> None:
    kit.commit_offsets({("t", 0): 5}, version=2, retention_ms=retention_ms)
    assert written(kit)[-1].expires_at_ms == min(START_MS + retention_ms, 2**63 - 1)


def test_the_length_of_metadata_is_in_utf_16_code_units() -> None:
    assert not is_too_long("ä" * 10, 10)
    assert is_too_long("ä" * 11, 10)
    assert not is_too_long("\U0001f600" * 5, 10)
    assert is_too_long("\U0001f600" * 5 + "x", 10)
    assert is_too_long("x", 0) and not is_too_long("", 0)


def test_strings_that_do_not_fit_into_a_record(kit: OffsetKit) -> None:
    kit.settings.offset_metadata_max_bytes = 1_000_000
    longest = "\N{EURO SIGN}" * 10_922 + "e"  # 32,767 bytes, the limit of a string
    offsets = [
        OffsetToCommit("t", 0, 1, metadata=longest),
        OffsetToCommit("t", 1, 1, metadata=longest + "e"),
    ]
    for retention_ms in (-1, 1000):
        codes = kit.commit_offsets(offsets, longest, version=2, retention_ms=retention_ms)
        assert codes == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert kit.fetch("t", 0, longest).metadata == longest
    for producer_id in (None, 5):
        code = error_code_of(
            lambda producer_id=producer_id: kit.commit_offsets(
                {("t", 0): 5}, longest + "e", producer_id=producer_id
            )
        )
        assert code is ErrorCode.INVALID_GROUP_ID


def test_a_group_that_answers_not_found_counts_as_unknown(kit: OffsetKit) -> None:
    class Gone:
        def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    kit.shard.state.groups["g"] = Gone()  # type: ignore[assignment]
    assert not kit.shard.offsets.check_fetch("g", "m", 3)


@pytest.mark.parametrize(
    "record",
    [
        JournalRecord(b"\0\1", b"value"),
        JournalRecord(b"\0\1\0\1g\0\1t", None),
        JournalRecord(partition_key(topic_key("g", "t"), 0), b"\0\4"),
        JournalRecord(partition_key(topic_key("g", "t"), 0), b"\0\x09 of the future"),
        JournalRecord(b"\0\1\0\1\xff\0\1t\0\0\0\0", b""),
    ],
)
def test_records_that_can_t_be_read_change_nothing(
    kit: OffsetKit, record: JournalRecord, caplog: pytest.LogCaptureFixture
) -> None:
    kit.commit_offsets({("t", 0): 1})
    kit.shard.apply(record, None)
    kit.shard.replay([record.key], [record.value])
    assert kit.offsets() == {("t", 0): 1}
    assert len(caplog.records) == 2


def test_a_key_of_the_first_version_is_read(kit: OffsetKit) -> None:
    kit.commit_offsets({("t", 0): 1})
    (record,) = kit.appended
    old_key = b"\0\0" + record.key[2:]
    kit.shard.replay([old_key], [bytes.fromhex("0000" + "00" * 7 + "09" + "0000" + "00" * 8)])
    assert kit.fetch("t", 0).offset == 9
    kit.shard.apply(JournalRecord(old_key, None), None)
    assert kit.offsets() == {}
