"""Record batches: what kafka-python builds is read and passes, what is damaged does not."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import (
    LZ4,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    ZSTD,
    BatchHeader,
    FirstAtOrAfter,
    Unacceptable,
    Unreadable,
    attributes_of_first,
    check_batch,
    crc_of,
    iter_records,
    payload_of,
    read_header,
    read_varint,
    set_offset_and_epoch,
)

LIMIT_BYTES = 1 << 24

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3)
RECORDS = st.lists(
    st.builds(
        Written,
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=300),
        headers=HEADERS,
        time_ms=st.integers(-(10**9), 10**9),
    ),
    min_size=1,
    max_size=8,
)
CODEC = st.sampled_from(sorted(batches.CODECS))


def opened(batch: bytearray) -> tuple[BatchHeader, Any]:
    header = check_batch(memoryview(batch))
    return header, payload_of(header, batch, LIMIT_BYTES)


def first_at_or_after(
    header: BatchHeader, payload: Any, timestamp_ms: int, from_offset: int = 0
) -> tuple[int, int] | None:
    """The whole of that search at once."""
    search = FirstAtOrAfter(header, payload, timestamp_ms, from_offset)
    search.step(header.record_count + 1)
    return search.found


# -- header ---------------------------------------------------------------------------------


@given(
    records=RECORDS,
    codec=CODEC,
    producer=st.sampled_from([(-1, -1, -1), (7, 3, 0), (7, 3, 2**31 - 1)]),
    transactional=st.booleans(),
)
def test_what_the_library_builds_passes(
    records: list[Written], codec: str, producer: tuple[int, int, int], transactional: bool
) -> None:
    batch = batches.build(records, codec=codec, producer=producer, transactional=transactional)
    header = check_batch(memoryview(batch))
    theirs = DefaultRecordBatch(bytearray(batch))
    assert theirs.validate_crc()
    assert header == read_header(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset) == (theirs.base_offset, theirs.last_offset)
    assert header.compression == theirs.compression_type
    assert header.base_timestamp == theirs.first_timestamp
    assert header.max_timestamp == theirs.max_timestamp
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert header.is_transactional == theirs.is_transactional == transactional
    assert not header.is_control
    assert header.record_count == len(records)


@pytest.mark.parametrize("name", batches.REFUSED)
def test_what_a_client_may_not_send_is_refused(name: str) -> None:
    batch, code = batches.REFUSED[name]
    with pytest.raises(ApiError) as raised:
        check_batch(memoryview(batch))
    assert raised.value.code.name == code
    assert raised.value.message, "for the broker's log"


@pytest.mark.parametrize("codec", [5, 6, 7])
@pytest.mark.parametrize("newest", [LZ4, ZSTD])
def test_an_unknown_codec_is_refused(codec: int, newest: int) -> None:
    """As in Apache Kafka 4.3.1, which has no better code for it."""
    batch = batches.patch(batches.PLAIN, attributes=codec)
    with pytest.raises(ApiError) as raised:
        check_batch(memoryview(batch), newest)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_zstd_is_refused_where_the_version_has_none() -> None:
    for codec in ("none", "gzip", "snappy", "lz4"):
        check_batch(memoryview(batches.build(codec=codec)), LZ4)
    with pytest.raises(ApiError) as raised:
        check_batch(memoryview(batches.build(codec="zstd")), LZ4)
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_the_flag_of_the_append_s_time_is_left_to_the_caller() -> None:
    batch = batches.patch(batches.PLAIN, attributes=batches.LOG_APPEND_TIME | 1)
    assert check_batch(memoryview(batch)).attributes == batches.LOG_APPEND_TIME | 1


@pytest.mark.parametrize("more", [b"1", b"12345678901", bytes(batches.PLAIN[:-5])])
def test_a_part_of_a_batch_may_follow(more: bytes) -> None:
    header = check_batch(memoryview(batches.PLAIN + more))
    assert header.size == len(batches.PLAIN), "which says what to append"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (b"\0" * 12, "CORRUPT_MESSAGE"),
        (bytes(batches.patch(batches.PLAIN, magic=9))[:20], "CORRUPT_MESSAGE"),
        (bytes(batches.PLAIN), "INVALID_RECORD"),
    ],
)
def test_no_other_batch_may_follow(more: bytes, code: str) -> None:
    with pytest.raises(Unacceptable) as raised:
        check_batch(memoryview(batches.PLAIN + more))
    assert raised.value.code.name == code


def test_the_largest_batch_that_is_allowed() -> None:
    size = len(batches.PLAIN)
    check_batch(memoryview(batches.PLAIN), bytes_max=size)
    check_batch(memoryview(batches.PLAIN + b"12345"), bytes_max=size)
    with pytest.raises(ApiError) as raised:
        check_batch(memoryview(batches.PLAIN), bytes_max=size - 1)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_the_attributes_of_the_first_batch() -> None:
    batch = batches.build([Written(value=bytes(500))], codec="lz4", transactional=True)
    assert attributes_of_first(memoryview(batch + batches.PLAIN)) == TRANSACTIONAL | LZ4
    for whole_is_missing in (b"", batch[:11], batch[:30], batches.build_legacy(1)):
        assert attributes_of_first(memoryview(whole_is_missing)) == 0
    for name in ("a negative length", "a length below any message", "magic 3", "magic -1"):
        with pytest.raises(Unreadable):
            attributes_of_first(memoryview(batches.REFUSED[name][0]))


@given(at=st.integers(0, len(batches.IDEMPOTENT) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(at: int, bit: int) -> None:
    damaged = bytearray(batches.IDEMPOTENT)
    damaged[at] ^= 1 << bit
    if 12 <= at < 16:  # the leader epoch is the broker's to write, and outside the CRC
        check_batch(memoryview(damaged))
        return
    with pytest.raises(ApiError) as raised:
        check_batch(memoryview(damaged))
    assert raised.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@given(garbage=st.binary(max_size=120))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(ApiError):
        check_batch(memoryview(garbage))


def test_a_stamp_changes_offset_and_epoch_and_nothing_else() -> None:
    batch = bytearray(batches.PLAIN)
    before = read_header(batch)
    set_offset_and_epoch(memoryview(batch), 1_234_567_890_123, 42)
    after = read_header(batch)
    assert after == before._replace(base_offset=1_234_567_890_123, leader_epoch=42)
    assert crc_of(batch) == after.crc
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [record.offset for record in theirs][0] == 1_234_567_890_123


def test_sequences_wrap() -> None:
    batch = batches.build(producer=(7, 0, 2**31 - 2))
    assert read_header(batch).last_sequence == 0


def test_a_header_is_read_at_a_position() -> None:
    assert read_header(b"\0" * 10 + batches.PLAIN, 10) == read_header(batches.PLAIN)
    with pytest.raises(struct.error):
        read_header(batches.PLAIN[:60])


# -- records --------------------------------------------------------------------------------


@given(records=RECORDS, codec=CODEC)
def test_records_are_read_as_the_library_reads_them(records: list[Written], codec: str) -> None:
    batch = batches.build(records, codec=codec)
    header, payload = opened(batch)
    found = [
        (
            header.base_offset + record.offset_delta,
            header.base_timestamp + record.timestamp_delta,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            [(str(name, "utf-8"), content) for name, content in record.headers],
        )
        for record in iter_records(header, payload)
    ]
    theirs = [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for record in batches.read(batch)
    ]
    assert found == theirs
    assert [(key, value) for _, _, key, value, _ in found] == [
        (record.key, record.value) for record in records
    ]


def test_records_come_lazily_and_are_views() -> None:
    batch = batches.build()
    header, payload = opened(batch)
    first = next(iter_records(header, payload))
    assert isinstance(first.value, memoryview)
    assert first.value.obj is batch


def record(body: bytes, *, claimed_bytes: int | None = None) -> bytes:
    """A record of these bytes after its length."""
    return batches.varint(len(body) if claimed_bytes is None else claimed_bytes) + body


V = batches.varint
GOOD = b"\0" + V(0) + V(0) + V(-1) + V(-1) + V(0)
"""Attributes, both deltas, null key, null value, no headers."""

BROKEN = {
    "nothing": (b"", 1),
    "fewer records than counted": (record(GOOD), 2),
    "more bytes than records": (record(GOOD) + b"\0", 1),
    "a length of zero": (b"\0" * 7, 1),
    "a negative length": (record(GOOD, claimed_bytes=-3), 1),
    "a length past the end": (record(GOOD, claimed_bytes=90), 1),
    "a length too short": (record(GOOD, claimed_bytes=4) + b"\0" * 4, 1),
    "a key past the record": (record(b"\0" + V(0) + V(0) + V(50) + V(-1) + V(0)), 1),
    "a value past the record": (record(b"\0" + V(0) + V(0) + V(-1) + V(50) + V(0)), 1),
    "a key of two gigabytes": (record(b"\0" + V(0) + V(0) + V(2**31 - 1) + V(-1)), 1),
    "minus one header": (record(b"\0" + V(0) + V(0) + V(-1) + V(-1) + V(-1)), 1),
    "a billion headers": (record(b"\0" + V(0) + V(0) + V(-1) + V(-1) + V(10**9)), 1),
    "a header without a name": (record(GOOD[:-1] + V(1) + V(-1) + V(-1)), 1),
    "half a header": (record(GOOD[:-1] + V(1) + V(0)), 1),
    "an endless varint": (b"\xff" * 30, 1),
    "an endless delta": (record(b"\0" + b"\xff" * 20), 1),
    "too many records for the bytes": (record(GOOD), 2**31 - 1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_records_are_refused(name: str) -> None:
    payload, count = BROKEN[name]
    header, inner = opened(batches.around(payload, count=count))
    with pytest.raises(ApiError) as raised:
        list(iter_records(header, inner))
    assert raised.value.code is ErrorCode.INVALID_RECORD
    try:
        first_at_or_after(header, inner, BASE_TIMESTAMP_MS * 2)  # looks at less, and at most fails
    except ApiError as failure:
        assert failure.code is ErrorCode.INVALID_RECORD


def test_the_shortest_record_is_read() -> None:
    header, payload = opened(batches.around(record(GOOD) * 3, count=3))
    assert len(record(GOOD)) == RECORD_BYTES_MIN
    assert [parsed.value for parsed in iter_records(header, payload)] == [None] * 3


@given(payload=st.binary(max_size=200), count=st.integers(1, 40))
def test_garbage_inside_is_refused_or_read(payload: bytes, count: int) -> None:
    header, inner = opened(batches.around(payload, count=count))
    try:
        assert len(list(iter_records(header, inner))) == count
    except ApiError as error:
        assert error.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_varints(bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    written = batches.varint(value)
    assert read_varint(b"__" + written + b"__", 2, bits) == (value, 2 + len(written))


# -- offsets by time ------------------------------------------------------------------------


@given(
    times=st.lists(st.integers(-100, 100), min_size=1, max_size=10),
    codec=CODEC,
    target_ms=st.integers(-110, 110),
    from_offset=st.integers(0, 11),
)
def test_the_first_record_that_is_not_older(
    times: list[int], codec: str, target_ms: int, from_offset: int
) -> None:
    batch = batches.build([Written(time_ms=time) for time in times], codec=codec)
    header, payload = opened(batch)
    found = first_at_or_after(header, payload, BASE_TIMESTAMP_MS + target_ms, from_offset)
    theirs = [
        (record.offset, record.timestamp)
        for record in batches.read(batch)
        if record.timestamp >= BASE_TIMESTAMP_MS + target_ms and record.offset >= from_offset
    ]
    assert found == (theirs[0] if theirs else None)


@given(times=st.lists(st.integers(-100, 100), min_size=1, max_size=10))
def test_the_record_of_the_greatest_time(times: list[int]) -> None:
    header, payload = opened(batches.build([Written(time_ms=time) for time in times]))
    found = first_at_or_after(header, payload, header.max_timestamp)
    assert found == (times.index(max(times)), header.max_timestamp)


def test_offsets_of_the_log_are_found() -> None:
    batch = batches.build([Written(time_ms=time) for time in (0, 5, 10)])
    set_offset_and_epoch(memoryview(batch), 1000, 3)
    header = read_header(batch)
    payload = payload_of(header, batch, LIMIT_BYTES)
    assert first_at_or_after(header, payload, BASE_TIMESTAMP_MS + 1) == (
        1001,
        BASE_TIMESTAMP_MS + 5,
    )


def test_with_the_time_of_the_append_all_records_have_one_time() -> None:
    batch = batches.patch(
        batches.build([Written(time_ms=time) for time in (0, 5, 10)]),
        attributes=batches.LOG_APPEND_TIME,
        max_timestamp=BASE_TIMESTAMP_MS + 77,
    )
    header = read_header(batch)
    payload = payload_of(header, batch, LIMIT_BYTES)
    assert first_at_or_after(header, payload, BASE_TIMESTAMP_MS + 70, 1) == (
        1,
        BASE_TIMESTAMP_MS + 77,
    )
    assert first_at_or_after(header, payload, BASE_TIMESTAMP_MS + 78) is None


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_search_in_steps_finds_the_same(step: int) -> None:
    header, payload = opened(batches.build([Written(time_ms=time) for time in range(20)]))
    for target_ms in (0, 7, 19, 20):
        search = FirstAtOrAfter(header, payload, BASE_TIMESTAMP_MS + target_ms)
        steps = 1
        while not search.step(step):
            steps += 1
        assert search.found == first_at_or_after(header, payload, BASE_TIMESTAMP_MS + target_ms)
        assert steps == min(target_ms, 20) // step + 1


def test_a_batch_of_many_records_is_not_looked_through_at_once() -> None:
    looks = 0

    class Counted(bytes):
        def __getitem__(self, key: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().__getitem__(key)

    header, payload = opened(batches.build([Written() for _ in range(1000)]))
    search = FirstAtOrAfter(header, Counted(payload), BASE_TIMESTAMP_MS * 2)
    assert not search.step(10)
    assert looks < 100
