"""Compression, read by kafka-python's readers and by the lz4 library's."""

from __future__ import annotations

import random
from collections.abc import Callable

import lz4.frame
import pytest
from kafka import codec

from kavka.wire.compressing import compress
from kavka.wire.compression import Codec

READ: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: lambda data: data,
    Codec.GZIP: codec.gzip_decode,
    Codec.SNAPPY: codec.snappy_decode,
    Codec.LZ4: codec.lz4_decode,
    Codec.ZSTD: codec.zstd_decode,
}
CHANCE = random.Random(6)
DATA = {
    "a byte": b"x",
    "the same": b"ab" * 100_000,
    "by chance": CHANCE.randbytes(200_000),
    "a block of snappy": CHANCE.randbytes(32 * 1024),
    "one more": CHANCE.randbytes(32 * 1024 + 1),
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("number", Codec)
def test_other_libraries_decompress_it(number: Codec, data: bytes) -> None:
    assert bytes(READ[number](bytes(compress(number, data)))) == data


@pytest.mark.parametrize(
    ("number", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 0, 12), (Codec.ZSTD, 1, 19)]
)
def test_a_higher_level_is_smaller(number: Codec, low: int, high: int) -> None:
    words = [b"alpha", b"beta", b"gamma", b"delta"]
    data = b" ".join(CHANCE.choices(words, k=50_000))
    small, big = compress(number, data, high), compress(number, data, low)
    assert len(small) < len(big)
    assert bytes(READ[number](bytes(small))) == data


def test_blocks_of_lz4_stand_alone() -> None:
    """Apache Kafka's reader refuses those that do not."""
    info = lz4.frame.get_frame_info(bytes(compress(Codec.LZ4, b"x" * 300_000)))
    assert (info["block_linked"], info["block_size"]) == (False, 64 * 1024)


def test_there_is_no_such_codec() -> None:
    with pytest.raises(ValueError, match="unknown compression codec 5"):
        compress(5, b"x")
