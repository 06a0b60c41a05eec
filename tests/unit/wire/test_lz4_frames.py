"""Headers of lz4 frames, judged by the lz4 library and xxhash. What Apache Kafka reads of frames
with them is asked in test_compression.py."""

from __future__ import annotations

import struct

import lz4.frame
import pytest

from kavka.wire.lz4_frames import simple_header
from support.codec_forms import lz4_frame, lz4_header

DATA = b"some text " * 50


@pytest.mark.parametrize("block", [4, 5, 6, 7])
@pytest.mark.parametrize("summed", [False, True])
def test_the_simple_header_promises_neither_size_nor_checksum(summed: bool, block: int) -> None:
    frame = lz4_frame(DATA, size=True, checksum=True, block_checksum=summed, block=block)
    header = simple_header(memoryview(frame))
    assert header.size == 15
    assert header.trailer_bytes == 4
    assert header.simple == lz4_header(0x70 if summed else 0x60, frame[5])
    blocks = frame[header.size : -header.trailer_bytes]
    assert lz4.frame.decompress(header.simple + blocks) == DATA


def test_a_plain_header_is_taken_as_it_is() -> None:
    frame = lz4_frame(DATA)
    assert simple_header(memoryview(frame)) == (7, frame[:7], 0)


@pytest.mark.parametrize("size", range(15))
def test_a_header_that_is_cut_is_refused(size: int) -> None:
    whole = lz4_header(0x68, more=struct.pack("<Q", 5))
    assert len(whole) == 15
    with pytest.raises(ValueError, match="cut short"):
        simple_header(memoryview(whole[:size]))


@pytest.mark.parametrize("at", range(7))
def test_a_header_with_another_byte_is_refused(at: int) -> None:
    frame = bytearray(lz4_frame(DATA))
    frame[at] ^= 0x02
    with pytest.raises(ValueError, match="frame|flags|size|checksum"):
        simple_header(memoryview(frame))
