"""Compressed records: read back by other libraries' readers, framed as Apache Kafka frames them."""

from __future__ import annotations

import random
from collections.abc import Callable

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as stock

from kavka.wire.compressing import compress
from kavka.wire.compression import Codec, decompress

LIMIT_BYTES = 1 << 22
READERS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: stock.gzip_decode,
    Codec.SNAPPY: stock.snappy_decode,
    Codec.LZ4: stock.lz4_decode,
    Codec.ZSTD: stock.zstd_decode,
}
LEVELS = {
    Codec.GZIP: (None, -1, 1, 9),
    Codec.SNAPPY: (None,),
    Codec.LZ4: (None, 1, 9, 10, 17),
    Codec.ZSTD: (None, -131072, -1, 1, 22),
}
DRAWN = random.Random(5)
TEXT = b" ".join(DRAWN.choice([b"storage", b"retention", b"offset", b"log"]) for _ in range(30_000))


@pytest.mark.parametrize(
    ("codec", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels]
)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, DRAWN.randbytes(100_000)])
def test_others_read_it_at_every_level(codec: Codec, level: int | None, data: bytes) -> None:
    packed = compress(codec, memoryview(data), level)
    if data or codec != Codec.SNAPPY:  # kafka-python takes the mere header for a block
        assert bytes(READERS[codec](bytes(packed))) == data
    assert bytes(decompress(codec, packed, LIMIT_BYTES)) == data


@given(st.binary(max_size=200_000), st.sampled_from(list(Codec)))
def test_it_is_read_back(data: bytes, codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, data), LIMIT_BYTES)) == data


@pytest.mark.parametrize(
    ("codec", "quick", "small"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -5, 22)]
)
def test_levels_count(codec: Codec, quick: int, small: int) -> None:
    assert len(compress(codec, TEXT, small)) < len(compress(codec, TEXT, quick))


def test_none_is_the_data_itself() -> None:
    data = bytearray(b"records")
    assert compress(Codec.NONE, data) is data


def test_snappy_is_framed_as_by_the_java_library() -> None:
    # SnappyOutputStream: a magic of 8 bytes, version 1, oldest compatible version 1, then blocks of
    # 32 KiB with their lengths
    packed = compress(Codec.SNAPPY, bytes(100_000))
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    blocks, position = 0, 16
    while position < len(packed):
        position += 4 + int.from_bytes(packed[position : position + 4], "big")
        blocks += 1
    assert position == len(packed)
    assert blocks == 4, "100,000 bytes in blocks of 32 KiB"


def test_lz4_is_what_apache_kafka_s_reader_takes() -> None:
    # Lz4BlockInputStream: blocks that do not depend on each other, of at most 64 KiB
    told = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not told["block_linked"]
    assert told["block_size_id"] == lz4.frame.BLOCKSIZE_MAX64KB


def test_there_are_no_other_codecs() -> None:
    with pytest.raises(ValueError):
        compress(5, b"")
