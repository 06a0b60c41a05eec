"""Decompression against kafka-python's codecs and Apache Kafka's streams, and what tries to inflate
without end."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import kafka.codec
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.wire.compression import (
    BYTES_PER_PART,
    IN_BYTES,
    OUT_BYTES,
    PARTS_MIN,
    Codec,
    decompress,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.old_lz4 import with_valid_checksum
from support import codec_forms, codec_judge
from support.codec_forms import FORMS, OLD_FORMS, Form
from support.fresh import printed

MIB = 1024 * 1024
LIMIT_BYTES = MIB
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def zstd_stream(data: bytes) -> bytes:
    """A frame without its size, as Java's producer writes it."""
    writer = zstandard.ZstdCompressor().compressobj()
    return writer.compress(data) + writer.flush()


ENCODERS: dict[str, tuple[Codec, Callable[[bytes], Any]]] = {
    "gzip": (Codec.GZIP, kafka.codec.gzip_encode),
    "snappy xerial": (Codec.SNAPPY, kafka.codec.snappy_encode),
    "snappy raw": (Codec.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (Codec.LZ4, kafka.codec.lz4_encode),
    "lz4 with checksums": (
        Codec.LZ4,
        lambda data: codec_forms.lz4_frame(data, checksum=True, block_checksum=True),
    ),
    "zstd": (Codec.ZSTD, kafka.codec.zstd_encode),
    "zstd stream": (Codec.ZSTD, zstd_stream),
}
EACH = pytest.mark.parametrize("name", ENCODERS)
DATA = st.binary(max_size=500) | st.sampled_from([b"", b"ab" * 40_000, bytes(range(256)) * 300])


def encoded(name: str, data: bytes) -> tuple[Codec, bytes]:
    codec, encode = ENCODERS[name]
    return codec, bytes(encode(data))


@EACH
@settings(max_examples=30)
@given(data=DATA)
def test_what_stock_clients_write_is_read(name: str, data: bytes) -> None:
    codec, written = encoded(name, data)
    for form in (bytes, bytearray, memoryview):
        assert bytes(decompress(codec, form(written), LIMIT_BYTES)) == data


def test_no_compression_copies_nothing() -> None:
    data = memoryview(b"x" * 100)
    assert decompress(Codec.NONE, data, 1) is data


@EACH
def test_the_limit_is_held_to_the_byte(name: str) -> None:
    data = bytes(range(256)) * 40
    codec, written = encoded(name, data)
    assert bytes(decompress(codec, written, len(data))) == data
    with pytest.raises(ApiError, match="limit|more than") as raised:
        decompress(codec, written, len(data) - 1)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@EACH
@settings(max_examples=30)
@given(cut=st.integers(1, 200))
def test_truncated_data_is_refused(name: str, cut: int) -> None:
    data = b"".join(struct.pack(">q", number * 2654435761) for number in range(200))
    codec, written = encoded(name, data)
    with pytest.raises(ApiError) as raised:
        decompress(codec, written[:-cut], LIMIT_BYTES)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@EACH
@settings(max_examples=60)
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_what_is_damaged_is_refused_or_read(name: str, at: int, byte: int) -> None:
    codec, written = encoded(name, b"some text, some more text, " * 20)
    damaged = bytearray(written)
    damaged[at % len(damaged)] = byte
    try:
        assert len(decompress(codec, damaged, LIMIT_BYTES)) <= LIMIT_BYTES
    except ApiError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@settings(max_examples=60)
@given(data=st.binary(max_size=60))
def test_garbage_is_refused_or_read(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, LIMIT_BYTES)) <= LIMIT_BYTES
    except ApiError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(ApiError) as raised:
        decompress(codec, b"", LIMIT_BYTES)
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# -- bombs ----------------------------------------------------------------------------------

BOMB_BYTES = 128 * MIB
GROWTH_BYTES_MAX = 48 * MIB

BOMBS = {
    "gzip": "member = zlib.compressobj(1, zlib.DEFLATED, 31)\n"
    "bomb = b''.join(member.compress(zeros) for _ in range(128)) + member.flush()",
    "snappy": "block = bytes(cramjam.snappy.compress_raw(zeros))\n"
    "bomb = header + 128 * (len(block).to_bytes(4, 'big') + block)",
    "lz4": "frame = lz4.frame.LZ4FrameCompressor()\n"
    "bomb = frame.begin()\n"
    "bomb += b''.join(frame.compress(zeros) for _ in range(128)) + frame.flush()",
    "zstd": "frame = zstandard.ZstdCompressor().compressobj()\n"
    "bomb = b''.join(frame.compress(zeros) for _ in range(128)) + frame.flush()",
}


@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_costs_no_more_than_the_limit(codec: str) -> None:
    """In a process of its own, whose greatest memory is its own."""
    program = f"""
import resource, zlib
import cramjam, lz4.frame, zstandard
from kavka.wire.compression import Codec, decompress
from kavka.wire.errors import ApiError
header = {XERIAL_HEADER!r}
zeros = bytes({MIB})
{BOMBS[codec]}
def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak_bytes()
try:
    decompress(Codec.{codec.upper()}, bomb, {LIMIT_BYTES})
except ApiError as refusal:
    print(peak_bytes() - before, refusal.code.name)
"""
    grown_bytes, code = printed(program).split()
    assert code == ErrorCode.CORRUPT_MESSAGE.name
    assert int(grown_bytes) < GROWTH_BYTES_MAX


def test_the_size_in_a_frame_s_header_is_not_allocated_at_once() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=True).compressobj(size=BOMB_BYTES)
    frame = compressor.compress(b"little")
    frame += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert zstandard.frame_content_size(frame) == BOMB_BYTES
    with pytest.raises(ApiError, match="more than"):
        decompress(Codec.ZSTD, frame, LIMIT_BYTES)


def test_a_snappy_block_may_not_claim_a_size_over_the_limit() -> None:
    claims = b"\xff\xff\xff\xff\x0f" + b"\0" * 20  # 4 GiB
    with pytest.raises(ApiError, match="more than"):
        decompress(Codec.SNAPPY, claims, LIMIT_BYTES)
    framed = XERIAL_HEADER + struct.pack(">i", len(claims)) + claims
    with pytest.raises(ApiError, match="more than"):
        decompress(Codec.SNAPPY, framed, LIMIT_BYTES)


# -- several in one -------------------------------------------------------------------------


def test_gzip_members_follow_each_other() -> None:
    """As Java's reader takes them."""
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 6) == b"onetwo"
    with pytest.raises(ApiError, match="more than 5 bytes"):
        decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 5)


@EACH
@pytest.mark.parametrize(
    "size", [IN_BYTES - 1, IN_BYTES, OUT_BYTES - 1, OUT_BYTES, OUT_BYTES + 1, 3 * OUT_BYTES]
)
def test_large_data_is_decompressed_in_pieces(name: str, size: int) -> None:
    """What can be compressed gives many pieces of little, what can't takes many."""
    for data in (bytes(size), random.Random(1).randbytes(size)):
        codec, packed = encoded(name, data)
        assert decompress(codec, packed, size) == data
        with pytest.raises(ApiError):
            decompress(codec, packed, size - 1)


@pytest.mark.parametrize("before", [0, 1, IN_BYTES - 10, IN_BYTES, OUT_BYTES])
def test_gzip_members_begin_anywhere(before: int) -> None:
    first, second = random.Random(1).randbytes(before), b"second" * 50_000
    packed = gzip.compress(first) + gzip.compress(second)
    assert decompress(Codec.GZIP, packed, 2 * MIB) == first + second


@pytest.mark.parametrize(
    ("codec", "part", "head"),
    [
        (Codec.GZIP, codec_forms.gzip_member(b"x"), b""),
        (Codec.GZIP, codec_forms.gzip_member(b"x"), codec_forms.gzip_member(b"")),
        (Codec.SNAPPY, codec_forms.snappy_block(b"x"), XERIAL_HEADER),
    ],
)
def test_parts_have_a_limit(codec: Codec, part: bytes, head: bytes) -> None:
    """Each costs some microseconds, so that many small ones would take forever."""
    limit = 10 * BYTES_PER_PART
    most = PARTS_MIN + 10 - (2 if head else 0)
    assert decompress(codec, head + part * most, limit) == b"x" * most
    with pytest.raises(ApiError, match="parts"):
        decompress(codec, head + part * (PARTS_MIN + 12), limit)
    assert decompress(codec, head + part * (PARTS_MIN + 12), MIB) == b"x" * (PARTS_MIN + 12)


def test_trailing_bytes_are_ignored_where_java_ignores_them() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + b"tail", LIMIT_BYTES) == b"one"
    assert decompress(Codec.LZ4, lz4.frame.compress(b"one") + b"tail", LIMIT_BYTES) == b"one"


@pytest.mark.parametrize(
    "framed",
    [
        XERIAL_HEADER[:12],
        XERIAL_HEADER + struct.pack(">i", 0),
        XERIAL_HEADER + struct.pack(">i", -5) + b"12345",
        XERIAL_HEADER + struct.pack(">i", 9) + b"12345",
    ],
)
def test_broken_snappy_framing_is_refused(framed: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        decompress(Codec.SNAPPY, framed, LIMIT_BYTES)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_codecs_are_imported_when_they_are_needed() -> None:
    program = (
        "import sys, kavka.wire.compression\n"
        "print([n for n in ('cramjam', 'lz4', 'zstandard') if n in sys.modules])"
    )
    assert printed(program).strip() == "[]"


def test_the_greatest_window_is_read() -> None:
    """Level 22 asks for 128 MiB; Java's reader takes that and no more."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = writer.compress(b"x" * 1000) + writer.flush()
    assert decompress(Codec.ZSTD, frame, LIMIT_BYTES) == b"x" * 1000

    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = writer.compress(b"x" * 1000) + writer.flush()
    with pytest.raises(ApiError) as raised:
        decompress(Codec.ZSTD, frame, LIMIT_BYTES)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_raw_deflate_is_no_gzip() -> None:
    with pytest.raises(ApiError):
        decompress(Codec.GZIP, zlib.compress(b"data"), LIMIT_BYTES)


# -- beside Apache Kafka's streams ----------------------------------------------------------

MUTATIONS = 4000
UNREAD = {
    "zstd: two frames, the second cut",
    "zstd: two frames, the second cut in its checksum",
}
"""Apache Kafka takes what is missing at the end of a later frame for the end of all."""


def kafkas(streams: list[codec_judge.Stream]) -> list[bytes | None]:
    """What Apache Kafka reads; None where it refuses."""
    return [None if found.refused else found.data for found in codec_judge.read(streams)]


def ours(codec: int, data: bytes) -> bytes | None:
    try:
        return bytes(decompress(codec, data, 64 * MIB))
    except ApiError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE
        return None


def test_every_form_is_read_as_apache_kafka_reads_it() -> None:
    cases = [
        (form, kind, data)
        for form in FORMS
        for kind, data in codec_forms.payloads().items()
        if not (len(data) > 10_000 and "every byte" in form.name)
    ]
    streams = [codec_judge.Stream(form.codec, form.encode(data)) for form, _, data in cases]
    whole: dict[Codec, int] = dict.fromkeys(Codec, 0)
    differing = []
    for (form, kind, data), stream, found in zip(cases, streams, kafkas(streams), strict=True):
        whole[form.codec] += found == data
        if ours(form.codec, stream.data) != (None if form.label in UNREAD else found):
            differing.append(f"{form.label}, {kind}")
    assert not differing
    assert min(whole[codec] for codec in list(Codec)[1:]) >= 30, "and most of them can be read"


def test_what_apache_kafka_writes_is_read() -> None:
    streams = [
        codec_judge.Stream(codec, data)
        for codec in list(Codec)[1:]
        for data in (*codec_forms.payloads().values(), b"")
    ]
    for stream, written in zip(streams, codec_judge.written(streams), strict=True):
        assert written != stream.data
        assert ours(stream.codec, written) == stream.data


def test_lz4_within_messages_of_magic_0_is_read_as_apache_kafka_reads_it() -> None:
    data = codec_forms.payloads()["text"]
    streams = [codec_judge.Stream(Codec.LZ4, form.encode(data), 0) for form in OLD_FORMS]
    assert kafkas(streams) == [data] * len(OLD_FORMS)
    valid = [bytes(with_valid_checksum(stream.data)) for stream in streams]
    assert [ours(Codec.LZ4, stream) for stream in valid] == [data] * len(OLD_FORMS)


def test_damaged_data_is_never_read_as_something_else() -> None:
    """Than Apache Kafka reads. In later frames of zstd it reads some of what is refused here."""
    chance = random.Random(20)
    payloads = [data for data in codec_forms.payloads().values() if len(data) < 10_000]
    damaged = [mutated(chance, chance.choice(FORMS), payloads) for _ in range(MUTATIONS)]
    wrong = []
    read = 0
    for stream, found in zip(damaged, kafkas(damaged), strict=True):
        mine = ours(stream.codec, stream.data)
        read += mine is not None
        refused_alone = mine is None and stream.codec in (Codec.ZSTD, Codec.SNAPPY)
        if mine != found and not refused_alone:
            wrong.append((stream, found, mine))
    assert not wrong
    assert read > MUTATIONS // 10


def mutated(chance: random.Random, form: Form, payloads: list[bytes]) -> codec_judge.Stream:
    damaged = bytearray(form.encode(chance.choice(payloads)) or b"\0")
    at = chance.randrange(min(len(damaged), chance.choice((40, len(damaged)))))
    match chance.randrange(5):
        case 0:
            damaged[at] ^= 1 << chance.randrange(8)
        case 1:
            damaged[at] = chance.randrange(256)
        case 2:
            del damaged[at : at + chance.randrange(1, 6)]
        case 3:
            damaged[at:at] = chance.randbytes(chance.randrange(1, 6))
        case 4:
            damaged += chance.choice(FORMS).encode(payloads[0])
    return codec_judge.Stream(form.codec, bytes(damaged))
