"""Batches made into message sets: batches by kafka-python's builder, sets read by its reader.

How much of a set is given, and what Apache Kafka 3.9.2 makes of it, is in the differential test.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import lz4_decode, lz4_decode_old_kafka
from kafka.record import MemoryRecords

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    LOG_APPEND_TIME,
    Written,
    around,
    build,
    patch,
)
from kavka.wire.compression import Codec
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.down_conversion import down_convert
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import set_offset_and_epoch
from kavka.wire.steps import run_at_once
from kavka.wire.up_conversion import BYTES_PER_STEP, INLINE_CRC_BYTES_MAX, RECORDS_PER_STEP
from support.steps import stops_of

MIB = 1 << 20
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
HEADERS = (("name", b"value"), ("nothing", None))
Fields = tuple[int, int, bytes | None, bytes | None]


def packed(codec: str) -> bytearray:
    """Three records that shrink: kafka-python does not compress others."""
    return build([Written(value=bytes(200), time_ms=n) for n in range(3)], codec=codec)


def log(*batches: bytes | bytearray, start: int = 0) -> memoryview:
    """Batches as they stand in a log, with offsets from `start` on."""
    data = bytearray()
    for batch in batches:
        at = len(data)
        data += batch
        count = int.from_bytes(batch[23:27], "big") + 1
        set_offset_and_epoch(memoryview(data)[at:], start, 0)
        start += count
    return memoryview(data)


class Found(NamedTuple):
    """What a conversion gave, in one piece."""

    message_set: bytes
    next_offset: int


def converted(batches: memoryview, magic: int = 1, offset: int = 0, bytes_max: int = MIB) -> Found:
    found = run_at_once(down_convert(batches, magic, offset, bytes_max))
    message_set = b"".join(found.pieces)
    assert found.size == len(message_set)
    return Found(message_set, found.next_offset)


def read(message_set: bytes | bytearray) -> list[Fields]:
    """Records as kafka-python reads them; every CRC is checked."""
    found: list[Fields] = []
    for batch in MemoryRecords(bytes(message_set)):
        assert batch.validate_crc()
        found += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    return found


def refused(batches: memoryview) -> ErrorCode:
    with pytest.raises(ApiError) as failure:
        converted(batches)
    return failure.value.code


OPTIONAL = st.none() | st.binary(max_size=300)
WRITTEN = st.builds(
    Written, OPTIONAL, OPTIONAL, st.sampled_from(((), HEADERS)), st.integers(-1000, 10**9)
)
RECORDS = st.lists(WRITTEN, min_size=1, max_size=30)


@given(
    batches=st.lists(st.tuples(RECORDS, st.sampled_from(OLD_CODECS)), min_size=1, max_size=4),
    magic=st.sampled_from((0, 1)),
    start=st.integers(0, 2**40),
)
def test_records_stay_what_they_are_but_for_headers(
    batches: list[tuple[list[Written], str]], magic: int, start: int
) -> None:
    log_bytes = log(*(build(records, codec=codec) for records, codec in batches), start=start)
    found = converted(log_bytes, magic, start)
    written = [record for records, _ in batches for record in records]
    assert found.next_offset == start + len(written)
    expected = [
        (start + n, time(record, magic), record.key, record.value)
        for n, record in enumerate(written)
    ]
    assert read(found.message_set) == expected


def time(record: Written, magic: int) -> int | None:
    return BASE_TIMESTAMP_MS + record.time_ms if magic else None


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_the_codec_is_kept(codec: str) -> None:
    found = converted(log(packed(codec), packed(codec)))
    batches = list(MemoryRecords(bytes(found.message_set)))
    number = ("none", "gzip", "snappy", "lz4").index(codec)
    assert {batch.compression_type for batch in batches} == {number}
    assert len(batches) == (6 if codec == "none" else 2)


def test_lz4_of_magic_0_has_the_checksum_that_it_has_always_had() -> None:
    log_bytes = log(packed("lz4"))
    for magic, head, inflate in ((0, 26, lz4_decode_old_kafka), (1, 34, lz4_decode)):
        frame = bytes(converted(log_bytes, magic).message_set[head:])
        right = lz4.frame.compress(b"", block_linked=False)[6]
        assert (frame[6] == right) == bool(magic)
        assert len(inflate(frame)) > 600


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_append_times_are_returned(codec: str) -> None:
    flagged = patch(
        packed(codec),
        attributes=OLD_CODECS.index(codec) | LOG_APPEND_TIME,
        max_timestamp=BASE_TIMESTAMP_MS + 77,
    )
    found = converted(log(flagged)).message_set
    for batch in MemoryRecords(bytes(found)):
        assert batch.timestamp_type == 1
        assert [record.timestamp for record in batch] == [BASE_TIMESTAMP_MS + 77] * len(list(batch))
    assert len(read(converted(log(flagged), 0).message_set)) == 3


@pytest.mark.parametrize("base", [-1, -77, 2**63 - 1])
def test_times_that_the_old_format_cannot_hold_are_none(base: int) -> None:
    batch = patch(build([Written(), Written(time_ms=5)]), base_timestamp=base, max_timestamp=base)
    times = [record[1] for record in read(converted(log(batch)).message_set)]
    assert times == [max(base, -1), base + 5 if base == -1 else -1]


# -- what is given of a log ------------------------------------------------------------------


def test_plain_records_are_given_from_the_offset_on() -> None:
    log_bytes = log(build(), build())
    assert [record[0] for record in read(converted(log_bytes, offset=2).message_set)] == [
        2,
        3,
        4,
        5,
    ]
    wrapped = log(packed("gzip"), build())
    assert [record[0] for record in read(converted(wrapped, offset=2).message_set)] == list(
        range(6)
    )


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    batch = build()
    log_bytes = log(batch, batch)
    for size in range(len(batch), 2 * len(batch)):
        found = converted(log_bytes[:size])
        assert ([record[0] for record in read(found.message_set)], found.next_offset) == (
            [0, 1, 2],
            3,
        )
    for size in range(len(batch)):
        assert converted(log_bytes[:size]) == Found(b"", 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_there_is_room_for_so_many_bytes_but_the_first_batch_is_whole(magic: int) -> None:
    log_bytes = log(build(), build())
    everything = converted(log_bytes, magic).message_set
    of_each = len(everything) // 6
    for room in range(len(everything) + 1):
        found = converted(log_bytes, magic, bytes_max=room).message_set
        assert found == everything[: max(3, room // of_each) * of_each]


def test_a_wrapper_is_given_whole_or_not_at_all() -> None:
    log_bytes = log(packed("gzip"), packed("gzip"), build())
    everything = converted(log_bytes, bytes_max=MIB).message_set
    sizes = {
        len(converted(log_bytes, bytes_max=room).message_set) for room in range(len(everything))
    }
    assert [len(read(everything[:size])) for size in sorted(sizes)] == [3, 6, 7, 8]


def test_control_batches_are_left_out() -> None:
    marker = end_marker(7, 0, Marker(False, 0, BASE_TIMESTAMP_MS))
    found = converted(log(marker, build(), marker, build(), marker))
    assert [record[0] for record in read(found.message_set)] == [1, 2, 3, 5, 6, 7]
    assert found.next_offset == 9
    assert converted(log(marker, marker), offset=1) == Found(b"", 2)


def test_transactional_records_lose_their_producer() -> None:
    batch = build(producer=(5, 0, 0), transactional=True)
    assert len(read(converted(log(batch)).message_set)) == 3


def test_a_batch_that_compaction_has_emptied_is_passed() -> None:
    empty = patch(around(b"", count=0), last_offset_delta=4)
    found = converted(log(empty, build()))
    assert ([record[0] for record in read(found.message_set)], found.next_offset) == ([5, 6, 7], 8)


def test_gaps_that_compaction_left_stay() -> None:
    batch = build([Written(b"%d" % n) for n in range(4)])
    body = bytes(batch[61:])
    size = len(body) // 4
    thinned = around(body[size : 2 * size] + body[3 * size :], count=2)
    log_bytes = log(patch(thinned, last_offset_delta=3), start=10)
    for magic in (0, 1):
        found = converted(log_bytes, magic)
        assert [(record[0], record[2]) for record in read(found.message_set)] == [
            (11, b"1"),
            (13, b"3"),
        ]
        assert found.next_offset == 14


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_batch_without_anything_from_the_offset_on_is_passed(codec: str) -> None:
    """Compaction has left its first record of five. A wrapper around nothing else than that would
    have the consumer ask for the same offset forever."""
    thinned = patch(build([Written(value=bytes(200))], codec=codec), last_offset_delta=4)
    log_bytes = log(thinned, build())
    for magic in (0, 1):
        found = converted(log_bytes[: len(thinned)], magic, offset=2)
        assert found == Found(b"", 5)
        found = converted(log_bytes, magic, offset=2)
        assert ([record[0] for record in read(found.message_set)], found.next_offset) == (
            [5, 6, 7],
            8,
        )


# -- what is refused -------------------------------------------------------------------------

DAMAGED = {
    "zstd": (build(codec="zstd"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "no gzip": (around(b"no gzip", count=1, attributes=1), ErrorCode.CORRUPT_MESSAGE),
    "no codec": (around(b"", count=1, attributes=6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "no record": (around(b"", count=1), ErrorCode.INVALID_RECORD),
    "past the end": (around(b"\x7f\0\0\0", count=1), ErrorCode.INVALID_RECORD),
    "zeros": (around(bytes(40), count=1), ErrorCode.INVALID_RECORD),
    "a key past the end": (around(b"\x0c\0\0\0\x7e\1\0", count=1), ErrorCode.INVALID_RECORD),
    "a varint without end": (around(b"\xff" * 40, count=1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize(("batch", "code"), DAMAGED.values(), ids=DAMAGED)
def test_a_batch_that_cannot_be_converted_ends_the_message_set_or_is_refused(
    batch: bytearray, code: ErrorCode
) -> None:
    assert refused(log(batch, build())) == code
    found = converted(log(build(), batch, build()))
    assert ([record[0] for record in read(found.message_set)], found.next_offset) == ([0, 1, 2], 3)


def test_nothing_is_given_of_a_batch_that_breaks_off() -> None:
    good = bytes(build([Written(), Written()])[61:])
    broken = around(good[: len(good) // 2] + b"\x7f", count=2)
    assert refused(log(broken)) == ErrorCode.INVALID_RECORD
    assert len(read(converted(log(build(), broken)).message_set)) == 3


@pytest.mark.parametrize("seed", range(300))
def test_only_corrupt_message_is_raised_for_any_batch(seed: int) -> None:
    chance = random.Random(seed)
    codec = chance.choice(OLD_CODECS)
    batch = build([Written(b"key", b"value", HEADERS)] * chance.randrange(1, 20), codec=codec)
    for _ in range(chance.randrange(1, 4)):
        batch[chance.randrange(61, len(batch))] = chance.randrange(256)
    patched = patch(batch, base_timestamp=chance.choice((-1, 0, 2**63 - 1, -(2**63))))
    for magic in (0, 1):
        try:
            found = converted(log(patched), magic)
        except ApiError:
            continue
        read(found.message_set)


# -- pauses and jobs -------------------------------------------------------------------------


def stops(log_bytes: memoryview) -> tuple[int, list[str]]:
    return stops_of(down_convert(log_bytes, 1, 0, 1 << 30))


def many(count: int, value: bytes | None = b"v", codec: str = "none") -> bytearray:
    return build([Written(b"key", value)] * count, codec=codec)


def test_pauses_and_jobs() -> None:
    assert stops(log(many(RECORDS_PER_STEP - 1))) == (0, [])
    assert stops(log(many(4 * RECORDS_PER_STEP))) == (4, [])
    assert stops(log(many(4, bytes(BYTES_PER_STEP)))) == (4, [])
    assert stops(log(many(10, codec="gzip"))) == (0, [])
    assert stops(log(*[packed("gzip")] * 5)) == (4, [])
    assert stops(log(*[many(1)] * RECORDS_PER_STEP)) == (1, [])
    marker = end_marker(7, 0, Marker(False, 0, BASE_TIMESTAMP_MS))
    assert stops(log(*[marker] * (RECORDS_PER_STEP + 1))) == (2, [])
    grown = log(many(4, bytes(MIB), codec="gzip"))
    pieces = ["decompress", "bytearray.join", "compress"]
    assert stops(grown) == (4 + 2 + 2, pieces), "what was inflated and joined is given back"
    noise = random.Random(1).randbytes(MIB + MIB // 8).hex().encode()
    packed_noise = log(many(1, noise, "gzip"))
    assert len(packed_noise) > INLINE_CRC_BYTES_MAX
    assert stops(packed_noise) == (3, [*pieces, "crc32"])


def test_every_codec_that_there_is_has_an_answer() -> None:
    for codec in Codec:
        log_bytes = log(build(codec=codec.name.lower()))
        if codec is Codec.ZSTD:
            assert refused(log_bytes) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            assert len(read(converted(log_bytes).message_set)) == 3
