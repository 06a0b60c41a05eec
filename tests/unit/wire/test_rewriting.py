"""Rewritten batches, read by kafka-python; its builder is what they are compared with."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    LOG_APPEND_TIME,
    Written,
    varint,
)
from kavka.wire.compressing import compress
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import iter_records, payload_of, read_header
from kavka.wire.rewriting import iter_heads, rebuild, renumbered, set_times
from kavka.wire.steps import ITEMS_PER_STEP, run_at_once

LIMIT_BYTES = 1 << 22
NOW_MS = 1_800_000_000_000
SOME = [Written(b"k%d" % n, b"v" * n, (("h", b"1"),), n) for n in range(5)]
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=70), BYTES), max_size=3)
WRITTEN = st.builds(
    Written, key=BYTES, value=BYTES, headers=HEADERS, time_ms=st.integers(-(2**41), 2**41)
)


def is_sound(batch: memoryview | bytearray) -> bool:
    return bool(DefaultRecordBatch(bytearray(batch)).validate_crc())


# -- times ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_the_time_of_the_append_is_that_of_every_record(codec: str) -> None:
    batch = batches.build(SOME, codec=codec, producer=(7, 1, 3), transactional=True)
    before = read_header(batch)
    header = set_times(memoryview(batch), before, NOW_MS, append_time=True)
    assert is_sound(batch)
    assert header == read_header(batch)
    read = batches.read(batch)
    assert [(record.timestamp, record.timestamp_type) for record in read] == [(NOW_MS, 1)] * 5
    assert [record.value for record in read] == [record.value for record in SOME]
    same = {"attributes": 0, "max_timestamp": 0, "crc": 0}
    assert header._replace(**same) == before._replace(**same)


def test_a_claimed_time_of_the_append_is_taken_back() -> None:
    whole = batches.build(SOME)
    batch = batches.patch(whole, attributes=LOG_APPEND_TIME)
    header = set_times(
        memoryview(batch), read_header(batch), BASE_TIMESTAMP_MS + 4, append_time=False
    )
    assert batch == whole
    assert header == read_header(whole)


def test_a_newest_time_that_no_record_has_is_put_right() -> None:
    whole = batches.build(SOME)
    batch = batches.patch(whole, max_timestamp=NOW_MS)
    set_times(memoryview(batch), read_header(batch), BASE_TIMESTAMP_MS + 4, append_time=False)
    assert batch == whole


def test_a_correct_batch_is_unchanged() -> None:
    batch = batches.patch(batches.build(SOME), attributes=0x4000)
    before = bytes(batch)
    header = read_header(batch)
    assert set_times(memoryview(batch), header, header.max_timestamp, append_time=False) is header
    assert batch == before


def test_bits_without_a_meaning_are_dropped() -> None:
    batch = batches.patch(batches.build(SOME), attributes=0x4040)
    assert (
        set_times(memoryview(batch), read_header(batch), NOW_MS, append_time=True).attributes == 8
    )


# -- another codec --------------------------------------------------------------------------


@pytest.mark.parametrize("other", CODECS)
@pytest.mark.parametrize("codec", CODECS)
def test_the_codec_is_another_and_nothing_else(codec: str, other: str) -> None:
    batch = batches.build(SOME * 9, codec=codec, producer=(7, 1, 3), transactional=True)
    header = read_header(batch)
    assert header.compression == CODECS[codec], "kafka-python leaves what does not get smaller"
    payload = payload_of(header, batch, LIMIT_BYTES)
    rebuilt = rebuild(header, CODECS[other], compress(CODECS[other], payload))
    assert is_sound(rebuilt)
    expected = batches.build(SOME * 9, codec=other, producer=(7, 1, 3), transactional=True)
    same = {"batch_length": 0, "crc": 0}  # another library may compress to another size
    assert read_header(rebuilt)._replace(**same) == read_header(expected)._replace(**same)
    assert list(map(repr, batches.read(rebuilt))) == list(map(repr, batches.read(expected)))
    if other == "none":
        assert rebuilt == expected


# -- a look at the records ------------------------------------------------------------------


@given(st.lists(WRITTEN, min_size=1, max_size=50))
def test_keys_times_and_offsets_of_all_records(written: list[Written]) -> None:
    batch = batches.build(written)
    header = read_header(batch)
    found = list(iter_heads(header, payload_of(header, batch, LIMIT_BYTES)))
    first = written[0].time_ms
    assert found == [
        (record.time_ms - first, -1 if record.key is None else len(record.key), number)
        for number, record in enumerate(written)
    ]


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


NULLS = varint(-1) * 2 + varint(0)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (b"\xff" * 40, 1),
        (bytes(40), 1),
        (record(b"\0\0\0" + NULLS), 2),
        (record(b"\0\0\0" + NULLS) * 2, 1),
        (record(b"\0\0\0" + NULLS) + b"\0", 1),
        (varint(90) + b"\0\0\0" + NULLS, 1),
        (record(b"\0\0\0" + varint(5) + b"k" + varint(-1) + varint(0)), 1),
        (varint(1) + b"\0\0\0\0\0\0\0", 1),
        (varint(5) + b"\0\0\0" + b"\xff" * 9, 1),
        (varint(20) + b"\0" + b"\x80" * 20, 1),
        (varint(-8) + b"\0\0\0" + NULLS, 1),
        (record(b"\0\0\0" + NULLS + b"\0"), 1),
        (record(b"\0\0\0" + varint(-1) + varint(9) + varint(0)) + bytes(9), 1),
        (record(b"\0\0\0" + varint(-1) * 2 + varint(-1)), 1),
        (record(b"\0\0\0" + varint(-1) * 2 + varint(3)), 1),
        (record(b"\0\0\0" + varint(-1) * 2 + varint(1) + varint(-1) * 2), 1),
        (record(b"\0\0\0" + varint(-1) * 2 + varint(1) + varint(1) + b"h" + varint(5)), 1),
    ],
)
def test_malformed_records_are_refused(payload: bytes, count: int) -> None:
    header = read_header(batches.around(payload, count=count))
    with pytest.raises(ApiError) as raised:
        list(iter_heads(header, payload))
    assert raised.value.code is ErrorCode.INVALID_RECORD


@settings(max_examples=400)
@given(st.lists(WRITTEN, min_size=1, max_size=4), st.data())
def test_a_flipped_bit_is_refused_by_both_walks_or_by_none(
    written: list[Written], data: st.DataObject
) -> None:
    """`iter_records` takes records apart, and is judged by kafka-python in test_records.py."""
    batch = batches.build(written)
    header = read_header(batch)
    payload = bytearray(payload_of(header, batch, LIMIT_BYTES))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        expected = [
            (
                record.timestamp_delta,
                -1 if record.key is None else len(record.key),
                record.offset_delta,
            )
            for record in iter_records(header, payload)
        ]
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD
        with pytest.raises(ApiError) as other:
            list(iter_heads(header, payload))
        assert other.value.code is ErrorCode.INVALID_RECORD
    else:
        assert list(iter_heads(header, payload)) == expected


# -- offsets that do not count from 0 on ----------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 600])
def test_offsets_are_assigned_again(count: int) -> None:
    written = [Written(b"k%d" % n, b"v" * n, (("h", b"1"),), n - 9) for n in range(count)]
    records = [
        record(b"\0" + varint(original.time_ms + 9) + varint(delta) + _rest(original))
        for original, delta in zip(written, [7, -1, 2**31 - 1] * count, strict=False)
    ]
    batch = batches.around(
        b"".join(records),
        count=count,
        base_timestamp=BASE_TIMESTAMP_MS - 9,
        max_timestamp=BASE_TIMESTAMP_MS + count - 10,
    )
    header = read_header(batch)
    payload = memoryview(batch)[batches.HEADER_BYTES :]
    new_payload = run_at_once(renumbered(payload, count))
    rebuilt = rebuild(header, 0, new_payload)
    assert rebuilt == batches.build(written)
    assert sum(1 for _ in renumbered(payload, count)) == (count - 1) // ITEMS_PER_STEP


def _rest(written: Written) -> bytes:
    assert written.key is not None
    assert written.value is not None
    sized = (varint(len(part)) + part for part in (written.key, written.value))
    return b"".join(sized) + varint(1) + varint(1) + b"h" + varint(1) + b"1"
