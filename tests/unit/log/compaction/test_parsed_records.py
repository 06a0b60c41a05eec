"""Records in bulk, against kafka-python's reader and builder."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import Written
from kavka.log.compaction.parsed_records import (
    BrokenRecords,
    ParsedRecords,
    join,
    join_shifted,
    split,
    timestamp_deltas,
)

SIZES = st.sampled_from([0, 1, 5, 62, 63, 64, 65, 127, 128, 200, 8191, 8192])


@st.composite
def written(draw: st.DrawFn) -> Written:
    def some() -> bytes:
        return bytes(draw(SIZES))

    return Written(
        draw(st.one_of(st.none(), st.builds(some))),
        draw(st.one_of(st.none(), st.builds(some))),
        draw(st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary())))),
        draw(st.sampled_from([0, 1, 63, 64, 8192, 1 << 20, 1 << 40])),
    )


def taken_apart(records: list[Written]) -> ParsedRecords:
    return split(bytes(batches.build(records)[61:]), len(records), len(records) - 1)


def as_batch(payload: bytes, count: int, **values: int) -> list[Any]:
    """The records as kafka-python reads them out of a batch."""
    return batches.read(batches.around(payload, count=count, **values))


@given(st.lists(written(), min_size=1, max_size=12))
def test_they_are_taken_apart(records: list[Written]) -> None:
    found = taken_apart(records)
    assert found.keys == [record.key or b"" for record in records]
    assert found.keyless == [slot for slot, record in enumerate(records) if record.key is None]
    assert found.tombstones == [slot for slot, record in enumerate(records) if record.value is None]
    assert found.deltas == list(range(len(records)))
    assert found.ends[-1] == len(found.data)
    base = records[0].time_ms
    every = range(len(records))
    assert timestamp_deltas(found, every) == [record.time_ms - base for record in records]


@given(st.lists(written(), min_size=1, max_size=12), st.data())
def test_some_are_put_together(records: list[Written], data: st.DataObject) -> None:
    found = taken_apart(records)
    slots = sorted(data.draw(st.sets(st.sampled_from(range(len(records))), min_size=1)))
    base = batches.BASE_TIMESTAMP_MS + records[0].time_ms
    read = as_batch(join(found, slots), len(slots), base_timestamp=base)
    assert [as_tuple(record) for record in read] == [shown(records, slot) for slot in slots]
    later = data.draw(st.sampled_from([0, 1, 1000, 1 << 41, -5]))
    read = as_batch(join_shifted(found, slots, later), len(slots), base_timestamp=base + later)
    assert [as_tuple(record) for record in read] == [shown(records, slot) for slot in slots]


def as_tuple(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


def shown(records: list[Written], slot: int) -> tuple[Any, ...]:
    record = records[slot]
    return (
        slot,
        batches.BASE_TIMESTAMP_MS + record.time_ms,
        record.key,
        record.value,
        list(record.headers),
    )


def test_many_records_have_long_deltas() -> None:
    records = [Written(b"%d" % number) for number in range(20_000)]
    found = taken_apart(records)
    assert found.deltas == list(range(20_000))
    assert found.keys[-1] == b"19999"


GOOD = bytes(batches.build([Written(b"key", b"value"), Written(b"other", b"value")])[61:])


@given(st.integers(0, len(GOOD) - 1))
def test_truncated_records_are_broken(size: int) -> None:
    with pytest.raises(BrokenRecords):
        split(GOOD[:size], 2, 1)


@pytest.mark.parametrize(
    ("data", "count", "last"),
    [
        (GOOD, 1, 1),
        (GOOD, 3, 2),
        (GOOD + b"\x00", 2, 1),
        (GOOD, 2, 0),  # an offset behind the batch's last
        (b"\x00" + GOOD, 3, 2),
        (b"\x01" + GOOD[1:], 2, 1),  # a negative size
        (GOOD[:3] + b"\x01" + GOOD[4:], 2, 1),  # a negative offset
        (GOOD[:4] + b"\x7e" + GOOD[5:], 2, 1),  # a key that is longer than its record
        (b"\xff\xff\xff\xff\xff\x01" + GOOD, 3, 2),  # a size of more than 32 bits
    ],
)
def test_malformed_records_are_reported_as_broken(data: bytes, count: int, last: int) -> None:
    split(GOOD, 2, 1)
    with pytest.raises(BrokenRecords):
        split(data, count, last)


@given(st.binary(max_size=200), st.integers(0, 20))
def test_anything_is_records_or_broken(data: bytes, count: int) -> None:
    try:
        found = split(data, count, count)
    except BrokenRecords:
        return
    assert len(found.keys) == len(found.deltas) == len(found.ends) == count
