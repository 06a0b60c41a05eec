"""Message sets made into batches: sets by kafka-python's builder, batches read by its reader.

The codes for what is refused are Apache Kafka 3.9.2's; the differential test asks it for all of
`differential/old_producers.py`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kavka.compat_tests.raw.codec import batches, message_sets
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, CODECS
from kavka.compat_tests.raw.codec.message_sets import framed, message, several, wrapped
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import LOG_APPEND_TIME, check_batch
from kavka.wire.steps import run_at_once
from kavka.wire.up_conversion import BYTES_PER_STEP, RECORDS_PER_STEP, up_convert
from support.steps import stops_of

MIB = 1 << 20
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
Fields = tuple[bytes | None, bytes | None, int]


def converted(message_set: bytes, bytes_max: int = MIB, **more: Any) -> bytes:
    return bytes(run_at_once(up_convert(memoryview(message_set), bytes_max=bytes_max, **more)))


def refused(message_set: bytes, **more: Any) -> ErrorCode:
    with pytest.raises(ApiError) as failure:
        converted(message_set, **more)
    return failure.value.code


def built(fields: Sequence[Fields], magic: int, codec: str = "none") -> bytes:
    builder = LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 30)
    for offset, (key, value, time_ms) in enumerate(fields):
        builder.append(offset, BASE_TIMESTAMP_MS + time_ms if magic else None, key, value)
    return bytes(builder.build())


def read(batch: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = batches.read(batch)
    assert all(record.headers == [] for record in found)
    return [(record.offset, record.timestamp, record.key, record.value) for record in found]


OPTIONAL = st.none() | st.binary(max_size=300)
FIELDS = st.lists(st.tuples(OPTIONAL, OPTIONAL, st.integers(-1000, 10**9)), min_size=1, max_size=50)


@given(fields=FIELDS, magic=st.sampled_from((0, 1)), codec=st.sampled_from(OLD_CODECS))
def test_records_stay_what_they_are(fields: list[Fields], magic: int, codec: str) -> None:
    batch = converted(built(fields, magic, codec))
    header = check_batch(memoryview(batch))
    times = [BASE_TIMESTAMP_MS + time_ms if magic else -1 for *_, time_ms in fields]
    assert read(batch) == [
        (offset, times[offset], key, value) for offset, (key, value, _) in enumerate(fields)
    ]
    assert header.compression == CODECS[codec]
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.leader_epoch == -1


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("sent", OLD_CODECS)
def test_another_codec_may_be_wanted(sent: str, codec: Codec) -> None:
    fields = [(b"key", b"value" * 10, n) for n in range(100)]
    batch = converted(built(fields, 1, sent), codec=codec)
    assert check_batch(memoryview(batch)).compression == codec
    assert [record[2:] for record in read(batch)] == [(b"key", b"value" * 10)] * 100


def test_the_compression_level_is_passed_on() -> None:
    codecs: list[int] = []

    def level(codec: int) -> int:
        codecs.append(codec)
        return 9

    converted(message(), codec=Codec.GZIP, level=level)
    assert codecs == [Codec.GZIP]


@pytest.mark.parametrize("times", [(0, 2**63 - 1 - BASE_TIMESTAMP_MS), (2**62, 0)])
def test_times_may_be_far_apart(times: tuple[int, ...]) -> None:
    sent = b"".join(message(time_ms=time_ms) for time_ms in times)
    assert [record[1] for record in read(converted(sent))] == [BASE_TIMESTAMP_MS + t for t in times]


def test_the_difference_of_times_may_overflow() -> None:
    batch = converted(message(timestamp=-1) + message(timestamp=2**63 - 1))
    assert (batches.field(batch, "base_timestamp"), batches.field(batch, "max_timestamp")) == (
        -1,
        2**63 - 1,
    )
    assert read(batch)[1][1] % 2**64 == 2**63 - 1, "as Java adds"


# -- offsets, times and flags of messages ----------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("offset", [0, 2, 7000])
def test_offsets_are_assigned_again(magic: int, offset: int) -> None:
    inside = [message(b"%d" % n, magic=magic, offset=offset + n) for n in range(3)]
    for sent in (b"".join(inside), wrapped(inside, magic=magic, offset=offset + 2)):
        assert [record[0] for record in read(converted(sent))] == [0, 1, 2]


def test_a_wrapper_of_librdkafka_says_0() -> None:
    assert len(read(converted(wrapped(several(3), offset=0)))) == 3


def test_an_offset_below_those_inside_is_refused() -> None:
    assert refused(wrapped(several(5), offset=3)) == ErrorCode.INVALID_RECORD


def test_the_time_of_appending_is_the_wrapper_s_for_all_inside() -> None:
    sent = wrapped(several(3), attributes=message_sets.LOG_APPEND_TIME, time_ms=99)
    batch = converted(sent)
    assert batches.field(batch, "attributes") & LOG_APPEND_TIME
    assert batches.field(batch, "base_timestamp") == BASE_TIMESTAMP_MS + 99


def test_the_flag_of_one_message_is_the_batch_s() -> None:
    sent = message() + message(attributes=message_sets.LOG_APPEND_TIME)
    assert batches.field(converted(sent), "attributes") == LOG_APPEND_TIME
    assert batches.field(converted(message() * 2), "attributes") == 0
    of_magic_0 = message(attributes=message_sets.LOG_APPEND_TIME, magic=0)
    assert batches.field(converted(of_magic_0), "attributes") == 0, "it has no times"


# -- what is dropped and what is refused -----------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_a_partial_message_at_the_end_is_dropped(magic: int) -> None:
    whole = message(magic=magic)
    for size in range(1, len(whole)):
        assert len(read(converted(whole + whole[:size]))) == 1
        assert len(read(converted(wrapped([whole, whole[:size]], magic=magic)))) == 1
        assert converted(whole[:size]) == b""
    assert converted(b"") == b""


ONE = message()
REFUSED = {
    "a wrong CRC": (ONE + message(crc=7), ErrorCode.CORRUPT_MESSAGE),
    "a wrong CRC inside": (wrapped([ONE, message(crc=7)]), ErrorCode.CORRUPT_MESSAGE),
    "too small": (ONE + message(size=13), ErrorCode.CORRUPT_MESSAGE),
    "too small inside": (wrapped([ONE, message(size=13)]), ErrorCode.CORRUPT_MESSAGE),
    "magic 3": (ONE + message(magic=3), ErrorCode.CORRUPT_MESSAGE),
    "two magics": (ONE + message(magic=0), ErrorCode.INVALID_RECORD),
    "another magic inside": (wrapped([ONE, message(magic=0)]), ErrorCode.INVALID_RECORD),
    "a batch behind": (ONE + bytes(batches.build()), ErrorCode.INVALID_RECORD),
    "two wrappers": (wrapped([ONE]) * 2, ErrorCode.INVALID_RECORD),
    "a wrapper among messages": (ONE + wrapped([ONE]), ErrorCode.INVALID_RECORD),
    "a wrapper in a wrapper": (wrapped([wrapped([ONE])]), ErrorCode.INVALID_RECORD),
    "nothing in a wrapper": (wrapped([], offset=0), ErrorCode.INVALID_RECORD),
    "a wrapper of null": (message(value=None, attributes=1), ErrorCode.INVALID_RECORD),
    "zstd": (message(attributes=4), ErrorCode.INVALID_RECORD),
    "no gzip": (message(attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR),
    "no codec": (message(attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "shorter than its fields": (framed(b"\1" + bytes(9)), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a key past the end": (framed(b"\0\0\0\0\0\7key!"), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a value past the end": (
        framed(b"\0\0\xff\xff\xff\xff\0\0\0\5v"),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    "a time below zero": (message(timestamp=-2), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize(("sent", "code"), REFUSED.values(), ids=REFUSED)
def test_message_sets_that_are_refused(sent: bytes, code: ErrorCode) -> None:
    assert refused(sent) == code


def test_sizes_are_bounded_of_each_message_and_of_the_batch() -> None:
    single = message(value=b"x" * 100)
    assert refused(single, bytes_max=len(single) - 1) == ErrorCode.MESSAGE_TOO_LARGE
    batch = converted(single * 3)
    assert converted(single * 3, bytes_max=len(batch)) == batch
    assert refused(single * 3, bytes_max=len(batch) - 1) == ErrorCode.MESSAGE_TOO_LARGE


def test_the_decompressed_size_of_a_wrapper_is_limited() -> None:
    many = [message(value=bytes(MIB))] * 70
    assert refused(wrapped(many, offset=0)) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("seed", range(300))
def test_only_api_errors_are_raised_for_any_message_set(seed: int) -> None:
    chance = random.Random(seed)
    magic = chance.randrange(2)
    codec = chance.choice(OLD_CODECS)
    fields: list[Fields] = [(b"key", b"value", n) for n in range(chance.randrange(1, 20))]
    sent = bytearray(built(fields, magic, codec))
    for _ in range(chance.randrange(1, 4)):
        sent[chance.randrange(len(sent))] = chance.randrange(256)
    if chance.randrange(2):  # past the CRC, so that what is behind it is looked at
        (size,) = struct.unpack_from(">i", sent, 8)
        if 14 <= size == len(sent) - 12:
            sent = bytearray(framed(bytes(sent[16:])))
    try:
        batch = converted(bytes(sent))
    except ApiError:
        return
    if batch:
        check_batch(memoryview(bytearray(batch)))
        batches.read(batch)


# -- pauses and jobs ------------------------------------------------------------------------


def stops(message_set: bytes) -> tuple[int, list[str]]:
    return stops_of(up_convert(memoryview(message_set), bytes_max=1 << 30))


def test_small_message_sets_are_converted_without_pauses() -> None:
    assert stops(b"".join(several(RECORDS_PER_STEP - 1, magic=0))) == (0, [])
    assert stops(wrapped(several(RECORDS_PER_STEP - 1))) == (0, ["compress"])
    assert stops(wrapped(several(100))) == (0, [])


def test_there_are_pauses_for_many_records_and_for_big_ones() -> None:
    many = 4 * RECORDS_PER_STEP
    assert stops(b"".join(several(many))) == (8, [])
    assert stops(wrapped(several(many))) == (4, ["compress"])
    big = message(value=bytes(BYTES_PER_STEP))
    assert stops(big * 4)[0] == 2 * 4 - 1


def test_long_work_is_done_in_threads() -> None:
    noise = random.Random(1).randbytes(80_000)
    assert stops(wrapped([message(value=noise)])) == (0, ["decompress", "compress"])
    assert stops(wrapped([message(value=bytes(MIB))])) == (1, ["decompress", "compress"])
    assert stops(message(value=bytes(2 * MIB - 100)))[1] == ["crc32"]
    assert stops(message(value=bytes(2 * MIB)))[1] == ["crc32", "bytearray.join"]


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4"])
def test_large_batches_are_joined_in_threads(name: str) -> None:
    """A `bytearray` that grew to so much would be moved again and again; and only what is made of
    `bytes` is put together without the interpreter's lock."""
    messages = [message(value=bytes(1000), offset=n) for n in range(8000)]
    steps = up_convert(memoryview(wrapped(messages, name)), bytes_max=1 << 30, codec=Codec.NONE)
    answer: Any = None
    joined: list[list[bytes]] = []
    inflated: Any = None
    lengths = []
    with suppress(StopIteration):
        while True:
            wait = steps.send(answer)
            answer = None
            if isinstance(wait, tuple):
                answer = wait[0](*wait[1:])
                if wait[0].__name__ == "decompress":
                    inflated = answer
                elif wait[0].__name__ == "join":
                    joined.append(wait[1])
            lengths.append(len(inflated))
    assert len(joined) == 1
    assert all(type(part) is bytes for part in joined[0])
    assert max(map(len, joined[0])) < BYTES_PER_STEP + 2000
    freed = [before - after for before, after in pairwise(lengths) if before != after]
    assert len(freed) > 1 and lengths[-1] <= 2 * MIB, "and given back in pieces"
