"""What stays of a batch. Batches are made and read by kafka-python."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kafka.record.default_records import DefaultRecordBatch

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    Written,
    build,
    field,
    patch,
)
from kavka.log.compaction import filtering
from kavka.log.compaction.filtering import (
    DELETE_HORIZON,
    BatchFilter,
    header_of,
    marker_of,
    open_records,
)
from kavka.log.compaction.offset_map import OffsetMap
from kavka.log.compaction.order import UNKNOWN, LastRecord
from kavka.log.compaction.parsed_records import BrokenRecords
from kavka.log.compaction.transactions import CleanedTransactions
from kavka.log.txn_index import AbortedTxn
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.record_batches import LOG_APPEND_TIME, read_header

NOW_MS = BASE_TIMESTAMP_MS + 1_000_000
RETENTION_MS = 5_000
BASE = 100
"""Of the batch that is looked at."""


def a_filter(
    newer: Sequence[tuple[bytes, int]] = (),
    *,
    latest: int = 1000,
    aborted: Sequence[AbortedTxn] = (),
    producers: dict[int, LastRecord] | None = None,
    before_end: dict[int, LastRecord] | None = None,
    now_ms: int = NOW_MS,
) -> BatchFilter:
    """One that has met these keys at these offsets."""
    offsets = OffsetMap(10_000, 0.9)
    offsets.put([key for key, _ in newer], [offset for _, offset in newer], 0)
    offsets.latest_offset = latest
    return BatchFilter(
        offsets,
        CleanedTransactions(aborted),
        producers or {},
        before_end or {},
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
    )


def keep(
    selected: BatchFilter, batch: bytes | bytearray, *, is_last: bool = False
) -> bytes | bytearray | None:
    data = bytes(batch)
    kept = selected.filter_batch(read_header(data), data, is_last=is_last)
    if kept == data:
        assert kept is data, "it should not have been rewritten"
    elif kept is not None:
        assert DefaultRecordBatch(bytearray(kept)).validate_crc()
        for name in ("base_offset", "last_offset_delta", "leader_epoch", "base_sequence"):
            assert field(kept, name) == field(data, name)
        for name in ("producer_id", "producer_epoch", "magic"):
            assert field(kept, name) == field(data, name)
        assert field(kept, "batch_length") == len(kept) - 12
    return kept


def at_base(records: Sequence[Written], *, codec: str = "none", **fields: int) -> bytearray:
    return patch(build(records, codec=codec), base_offset=BASE, leader_epoch=3, **fields)


def read(kept: bytes | bytearray | None) -> list[tuple[int, int, bytes | None, bytes | None]]:
    assert kept is not None
    return [
        (record.offset, record.timestamp, record.key, record.value) for record in batches.read(kept)
    ]


KEYS = (b"a", b"b", b"c", b"d")
FOUR = [Written(key, b"value " * 50 + key, (), 10 * slot) for slot, key in enumerate(KEYS)]


def test_nothing_changes_where_nothing_is_newer() -> None:
    batch = at_base(FOUR)
    own = [(key, BASE + slot) for slot, key in enumerate(KEYS)]
    older = [(key, BASE - 1) for key in KEYS]
    for newer in ([], own, older):
        selected = a_filter(newer)
        assert keep(selected, batch) == batch
        assert (selected.counts.records_read, selected.counts.records_kept) == (4, 4)


@pytest.mark.parametrize("codec", CODECS)
def test_superseded_records_are_removed_and_other_batches_are_unchanged(codec: str) -> None:
    batch = at_base(FOUR, codec=codec, producer_id=9, producer_epoch=2, base_sequence=77)
    selected = a_filter([(b"b", 105), (b"d", 106), (b"a", 100)])
    kept = keep(selected, batch)
    assert read(kept) == [
        (100, BASE_TIMESTAMP_MS, b"a", FOUR[0].value),
        (102, BASE_TIMESTAMP_MS + 20, b"c", FOUR[2].value),
    ]
    assert kept is not None
    assert field(kept, "record_count") == 2
    assert field(kept, "max_timestamp") == BASE_TIMESTAMP_MS + 20
    assert field(kept, "attributes") & 7 == CODECS[codec]
    assert selected.counts.records_kept == 2
    assert header_of(kept, read_header(batch), bytes(batch)).record_count == 2


def test_headers_of_records_stay() -> None:
    records = [Written(b"a", b"1", [("h", b"x"), ("n", None)]), Written(b"b", b"2")]
    kept = keep(a_filter([(b"b", 500)]), at_base(records))
    assert kept is not None
    (record,) = batches.read(kept)
    assert list(record.headers) == [("h", b"x"), ("n", None)]


def test_log_append_time_is_kept() -> None:
    batch = at_base(FOUR, attributes=LOG_APPEND_TIME, max_timestamp=NOW_MS)
    kept = keep(a_filter([(b"d", 500)]), batch)
    assert [time for _, time, _, _ in read(kept)] == [NOW_MS] * 3


def test_an_emptied_batch_is_removed() -> None:
    selected = a_filter([(key, 500) for key in KEYS])
    assert keep(selected, at_base(FOUR)) is None
    assert selected.counts.records_kept == 0


def test_records_beyond_the_offset_map_stay() -> None:
    """The map knew no more than half of the batch."""
    selected = a_filter([(b"a", 100), (b"b", 101)], latest=101)
    records = [*FOUR[:2], Written(None, b"1"), Written(None, b"2")]
    batch = at_base(records)
    assert keep(selected, batch) == batch
    assert selected.counts.records_keyless == 2


def test_records_without_a_key_are_removed() -> None:
    selected = a_filter([(b"", 50)])
    records = [Written(None, b"1"), Written(b"", b"2"), Written(b"a", b"3"), Written(None, b"4")]
    assert [value for *_, value in read(keep(selected, at_base(records)))] == [b"2", b"3"]
    assert selected.counts.records_keyless == 2


# --- tombstones (KIP-534)

DELETED = [
    Written(b"a", b"1" * 200, (), 0),
    Written(b"b", None, (), 10),
    Written(b"c", b"3", (), 70),
]


@pytest.mark.parametrize("codec", CODECS)
def test_a_tombstone_gets_a_delete_horizon(codec: str) -> None:
    kept = keep(a_filter(), at_base(DELETED, codec=codec))
    assert read(kept) == [
        (100, BASE_TIMESTAMP_MS, b"a", b"1" * 200),
        (101, BASE_TIMESTAMP_MS + 10, b"b", None),
        (102, BASE_TIMESTAMP_MS + 70, b"c", b"3"),
    ]
    assert kept is not None
    assert field(kept, "attributes") == CODECS[codec] | DELETE_HORIZON
    assert field(kept, "base_timestamp") == NOW_MS + RETENTION_MS
    assert field(kept, "max_timestamp") == BASE_TIMESTAMP_MS + 70


def test_a_tombstone_is_removed_at_its_delete_horizon() -> None:
    kept = keep(a_filter(), at_base(DELETED))
    assert kept is not None
    horizon_ms = NOW_MS + RETENTION_MS
    before = a_filter(now_ms=horizon_ms - 1)
    assert keep(before, kept) == kept
    partly = keep(a_filter([(b"a", 500)], now_ms=horizon_ms - 1), kept)
    assert [offset for offset, *_ in read(partly)] == [101, 102]
    assert partly is not None
    assert field(partly, "base_timestamp") == horizon_ms, "once set it stays"
    last = keep(a_filter(now_ms=horizon_ms), partly)
    assert read(last) == [(102, BASE_TIMESTAMP_MS + 70, b"c", b"3")]
    assert last is not None
    assert field(last, "attributes") == DELETE_HORIZON


def test_a_tombstone_that_the_map_has_not_seen_stays() -> None:
    kept = keep(a_filter(), at_base(DELETED))
    assert kept is not None
    later = a_filter(latest=100, now_ms=NOW_MS + RETENTION_MS)
    assert keep(later, kept) == kept


def test_a_superseded_tombstone_is_removed_without_a_horizon() -> None:
    kept = keep(a_filter([(b"b", 500)]), at_base(DELETED))
    assert kept is not None
    assert field(kept, "attributes") == 0
    assert [offset for offset, *_ in read(kept)] == [100, 102]


# --- empty batches


def emptied(kept: bytes | bytearray | None, batch: bytearray) -> None:
    assert kept is not None
    assert len(kept) == 61
    assert field(kept, "record_count") == 0
    assert field(kept, "base_timestamp") == -1
    assert field(kept, "max_timestamp") == field(batch, "max_timestamp")


def test_the_last_batch_of_a_producer_stays_empty() -> None:
    batch = at_base(FOUR, producer_id=9, producer_epoch=2, base_sequence=77)
    all_newer = [(key, 500) for key in KEYS]
    emptied(keep(a_filter(all_newer, producers={9: LastRecord(103, 2)}), batch), batch)
    assert keep(a_filter(all_newer, producers={9: LastRecord(104, 2)}), batch) is None
    assert keep(a_filter(all_newer, producers={8: LastRecord(103, 2)}), batch) is None


def test_the_last_batch_of_a_producer_before_the_end_of_the_compaction_stays_empty_too() -> None:
    """The later one may be truncated."""
    batch = at_base(FOUR, producer_id=9, producer_epoch=2, base_sequence=77)
    all_newer = [(key, 500) for key in KEYS]
    later = {9: LastRecord(700, 2)}
    for before_end in (LastRecord(103, 2), UNKNOWN):
        selected = a_filter(all_newer, producers=later, before_end={9: before_end})
        emptied(keep(selected, batch), batch)
    for before_end in (LastRecord(104, 2), LastRecord(-1, 2)):
        selected = a_filter(all_newer, producers=later, before_end={9: before_end})
        assert keep(selected, batch) is None
    forgotten = a_filter(all_newer, before_end={9: LastRecord(103, 2)})
    assert keep(forgotten, batch) is None


def test_the_last_batch_of_a_segment_stays_empty() -> None:
    batch = at_base(FOUR, codec="gzip")
    all_newer = [(key, 500) for key in KEYS]
    kept = keep(a_filter(all_newer), batch, is_last=True)
    emptied(kept, batch)
    assert kept is not None
    assert field(kept, "attributes") == 0
    assert keep(a_filter(), kept, is_last=True) == kept
    assert keep(a_filter(), kept) is None


# --- transactions


def marker(*, commit: bool, offset: int = 200, producer: int = 9, epoch: int = 2) -> bytearray:
    batch = end_marker(producer, epoch, Marker(commit, 5, BASE_TIMESTAMP_MS))
    return patch(bytearray(batch), base_offset=offset)


def transactional() -> bytearray:
    return at_base(FOUR, producer_id=9, producer_epoch=2, base_sequence=0, attributes=0x10)


def test_aborted_records_are_removed_and_the_marker_stays() -> None:
    entry = AbortedTxn(9, 100, 200, 100)
    selected = a_filter(aborted=[entry])
    assert keep(selected, transactional()) is None
    ending = marker(commit=False)
    assert keep(selected, ending) == ending
    assert selected.aborted == [entry]


def test_a_marker_gets_a_delete_horizon_once_its_records_are_removed() -> None:
    for commit in (False, True):
        selected = a_filter(aborted=[AbortedTxn(9, 100, 200, 100)])
        kept = keep(selected, marker(commit=commit))
        assert kept is not None
        assert field(kept, "attributes") == 0x30 | DELETE_HORIZON
        assert field(kept, "base_timestamp") == NOW_MS + RETENTION_MS
        assert marker_of(read_header(kept), bytes(kept)) == Marker(commit, 5, BASE_TIMESTAMP_MS)
        assert selected.aborted == []
        assert keep(a_filter(), kept) == kept
        assert keep(a_filter(now_ms=NOW_MS + RETENTION_MS), kept) is None


def test_a_marker_that_its_producer_is_known_by_stays_as_a_header() -> None:
    horizon = keep(a_filter(), marker(commit=True))
    assert horizon is not None
    then = NOW_MS + RETENTION_MS
    same = {9: LastRecord(-1, 2)}
    kept = keep(a_filter(now_ms=then, producers=same), horizon)
    assert kept is not None
    assert (len(kept), field(kept, "attributes")) == (61, 0x30)
    assert keep(a_filter(now_ms=then, producers=same), kept) == kept
    assert keep(a_filter(now_ms=then, producers={9: LastRecord(-1, 3)}), kept) is None
    later = {9: LastRecord(700, 2)}
    assert keep(a_filter(now_ms=then, producers=later, before_end=same), kept) == kept
    assert keep(a_filter(now_ms=then, producers=later, before_end={9: UNKNOWN}), kept) is None


def test_a_committed_marker_stays_while_there_are_records() -> None:
    selected = a_filter()
    batch = transactional()
    assert keep(selected, batch) == batch
    ending = marker(commit=True)
    assert keep(selected, ending) == ending


# --- damage


def test_a_batch_that_can_t_be_opened_stays_whole() -> None:
    broken = batches.around(b"\x00\x01\x02", count=2)
    selected = a_filter()
    assert keep(selected, broken) == broken
    assert (selected.counts.batches_broken, selected.counts.records_kept) == (1, 2)
    packed = at_base(FOUR, codec="gzip")
    damaged = patch(packed[:-12] + bytes(12))
    assert keep(selected, damaged) == damaged
    assert selected.counts.batches_broken == 2
    with pytest.raises(BrokenRecords):
        open_records(read_header(damaged), bytes(damaged))


def test_a_batch_with_too_many_records_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    selected = a_filter()
    batch = at_base(FOUR)
    monkeypatch.setattr(filtering, "RECORDS_MAX", 3)
    assert keep(selected, batch) == batch
    assert selected.counts.batches_broken == 1


def test_a_control_batch_that_makes_no_sense_stays() -> None:
    strange = patch(batches.around(b"\x00\x01\x02", count=1), attributes=0x30)
    assert marker_of(read_header(strange), bytes(strange)) is None
    assert keep(a_filter(), strange) == strange
    more = batches.around(bytes(marker(commit=True)[61:]) + b"\x00", count=1)
    readable = patch(more, attributes=0x30, producer_id=9)
    assert marker_of(read_header(readable), bytes(readable)) is not None
    assert keep(a_filter(), readable) == readable
