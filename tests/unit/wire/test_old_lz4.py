"""The checksum in the header of old lz4 frames, against kafka-python."""

from __future__ import annotations

import lz4.frame
import pytest
from kafka import codec

from kavka.wire.compressing import compress
from kavka.wire.compression import Codec, decompress
from kavka.wire.errors import ApiError
from kavka.wire.old_lz4 import old_header, with_valid_checksum

DATA = b"what an old client sends " * 1000


def of_old(frame: bytes) -> bytes:
    header = old_header(frame)
    return bytes(header) + frame[len(header) :]


def test_an_old_frame_is_read() -> None:
    old = codec.lz4_encode_old_kafka(DATA)
    with pytest.raises(ApiError):
        decompress(Codec.LZ4, old, len(DATA))
    assert bytes(decompress(Codec.LZ4, with_valid_checksum(old), len(DATA))) == DATA


@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_a_frame_with_more_in_its_header(store_size: bool, checksum: bool) -> None:
    frame = lz4.frame.compress(DATA, store_size=store_size, content_checksum=checksum)
    old = of_old(frame)
    assert old != frame
    assert with_valid_checksum(old) == frame == with_valid_checksum(frame)


def test_an_old_frame_is_written() -> None:
    old = of_old(bytes(compress(Codec.LZ4, DATA)))
    assert codec.lz4_decode_old_kafka(old) == DATA
    assert old[:7] == codec.lz4_encode_old_kafka(DATA)[:4] + old[4:7]
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(old)


@pytest.mark.parametrize("size", range(7))
def test_data_without_a_whole_header_is_unchanged(size: int) -> None:
    assert (
        with_valid_checksum(bytes(compress(Codec.LZ4, DATA))[:size])
        == compress(Codec.LZ4, DATA)[:size]
    )
