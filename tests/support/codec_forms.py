"""Every form in which a codec may come: those that its encoders write, those that its
specification allows, and damaged ones.

A form makes a stream of any bytes. What Apache Kafka reads of it is asked of Apache Kafka
(`support.codec_judge`), not said here.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import aiokafka.codec
import cramjam
import kafka.codec
import lz4.frame
import xxhash
import zstandard

from kavka.wire.compression import Codec

Encode = Callable[[bytes], bytes]

XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
SKIPPABLE: Final = struct.pack("<II", 0x184D2A50, 4) + b"skip"
EMPTY_SKIPPABLE: Final = struct.pack("<II", 0x184D2A5F, 0)
SOME: Final = bytes(range(1, 40))
"""What may stand behind a stream, or instead of one."""

_GZIP_TEXT, _GZIP_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 1, 2, 4, 8, 16


class Form(NamedTuple):
    """A way to compress bytes."""

    codec: Codec
    name: str
    encode: Encode
    magic: int = 2
    """Of the records that it is for."""

    @property
    def label(self) -> str:
        return f"{self.codec.name.lower()}: {self.name}"


def halves(data: bytes) -> tuple[bytes, bytes]:
    """Two parts, the first of which ends within a record."""
    middle = len(data) // 2 + 3
    return data[:middle], data[middle:]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


# -- gzip -----------------------------------------------------------------------------------


def gzip_member(data: bytes, flags: int = 0, level: int = 6) -> bytes:
    """A member whose header has these fields."""
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\1\2\3\4\0\3"
    head += b"\x05\0extra" if flags & _GZIP_EXTRA else b""
    head += b"name\0" if flags & _GZIP_NAME else b""
    head += b"a comment\0" if flags & _GZIP_COMMENT else b""
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF) if flags & _GZIP_CRC else b""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    return head + deflate.compress(data) + deflate.flush() + gzip_trailer(data)


def gzip_trailer(data: bytes) -> bytes:
    return struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def gzip_flushed(mode: int, *, end: bool = True) -> Encode:
    """A stream that is flushed now and then, as by who sends it while it is made."""

    def encode(data: bytes) -> bytes:
        stream = zlib.compressobj(6, zlib.DEFLATED, 31)
        parts = [stream.compress(part) + stream.flush(mode) for part in pieces(data, 100)]
        return b"".join(parts) + (stream.flush() if end else b"")

    return encode


def gzip_members(size: int) -> Encode:
    return lambda data: b"".join(gzip_member(part) for part in pieces(data, size))


def gzip_two(second: Encode) -> Encode:
    """Two members, the second of which is made otherwise."""

    def encode(data: bytes) -> bytes:
        head, tail = halves(data)
        return gzip_member(head) + second(tail)

    return encode


def behind(encode: Encode, *more: bytes) -> Encode:
    return lambda data: encode(data) + b"".join(more)


def before(encode: Encode, *more: bytes) -> Encode:
    return lambda data: b"".join(more) + encode(data)


def cut(encode: Encode, size: int) -> Encode:
    return lambda data: encode(data)[:-size]


def changed(encode: Encode, at: int, by: int = 1) -> Encode:
    def damaged(data: bytes) -> bytes:
        made = bytearray(encode(data))
        made[at] ^= by
        return bytes(made)

    return damaged


GZIP: Final[dict[str, Encode]] = {
    "of kafka-python": lambda data: bytes(kafka.codec.gzip_encode(data)),
    "of aiokafka": lambda data: bytes(aiokafka.codec.gzip_encode(data)),
    "of Python's gzip": lambda data: gzip.compress(data, mtime=1),
    "stored, not compressed": lambda data: gzip_member(data, level=0),
    "two members": gzip_two(gzip_member),
    "two members with fields": gzip_two(lambda data: gzip_member(data, 0x1F)),
    "a member for every 40 bytes": gzip_members(40),
    "a member for every byte": gzip_members(1),
    "an empty member first": before(gzip_member, gzip_member(b"")),
    "an empty member last": behind(gzip_member, gzip_member(b"")),
    "sync flushes": gzip_flushed(zlib.Z_SYNC_FLUSH),
    "full flushes": gzip_flushed(zlib.Z_FULL_FLUSH),
    "a name": lambda data: gzip_member(data, _GZIP_NAME),
    "an extra field": lambda data: gzip_member(data, _GZIP_EXTRA),
    "a comment": lambda data: gzip_member(data, _GZIP_COMMENT),
    "a checksum of the header": lambda data: gzip_member(data, _GZIP_CRC),
    "all fields of a header": lambda data: gzip_member(data, 0x1F),
    "flags that mean nothing": lambda data: gzip_member(data, 0xE0 | _GZIP_TEXT),
    "19 bytes of something else behind": behind(gzip_member, SOME[:19]),
    "zeros behind": behind(gzip_member, bytes(100)),
    "18 bytes of a member behind": behind(gzip_member, gzip_member(b"abc")[:18]),
    "19 bytes of a member behind": behind(gzip_member, gzip_member(bytes(range(40)))[:19]),
    "an unended name behind": behind(gzip_member, gzip_member(b"", _GZIP_NAME)[:13], b"x" * 20),
    "a wrong checksum of a header behind": behind(
        gzip_member, b"\x1f\x8b\x08\x02" + bytes(6) + b"\1\1" + gzip_member(b"more")[10:]
    ),
    "no end": gzip_flushed(zlib.Z_SYNC_FLUSH, end=False),
    "cut in the data": cut(gzip_member, 30),
    "cut in the trailer": cut(gzip_member, 3),
    "cut before the trailer": cut(gzip_member, 8),
    "cut in the second member": gzip_two(cut(gzip_member, 20)),
    "cut in the second trailer": gzip_two(cut(gzip_member, 2)),
    "a wrong checksum": changed(gzip_member, -8),
    "a wrong size": changed(gzip_member, -1),
    "a wrong checksum in the second member": gzip_two(changed(gzip_member, -8)),
    "a damaged second member": gzip_two(changed(gzip_member, 12, 0xFF)),
    "a wrong checksum of the header": changed(lambda data: gzip_member(data, 0x1F), 27),
    "another method": changed(gzip_member, 2),
    "a zlib stream": zlib.compress,
    "the magic alone": lambda data: b"\x1f\x8b",
    "nothing": lambda data: b"",
}


# -- snappy ---------------------------------------------------------------------------------


def snappy_raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def snappy_block(data: bytes) -> bytes:
    packed = snappy_raw(data)
    return struct.pack(">i", len(packed)) + packed


def xerial(data: bytes, size: int = 32 * 1024, header: bytes = XERIAL_HEADER) -> bytes:
    return header + b"".join(snappy_block(part) for part in pieces(data, size))


def xerial_two(header: bytes) -> Encode:
    """Two streams, the second with another header."""

    def encode(data: bytes) -> bytes:
        head, tail = halves(data)
        return xerial(head) + xerial(tail, header=header)

    return encode


SNAPPY: Final[dict[str, Encode]] = {
    "of kafka-python": lambda data: bytes(kafka.codec.snappy_encode(data)),
    "of aiokafka": lambda data: bytes(aiokafka.codec.snappy_encode(data)),
    "raw, as librdkafka and franz-go": snappy_raw,
    "blocks of 32 KiB": xerial,
    "blocks of 100 bytes": lambda data: xerial(data, 100),
    "a block for every byte": lambda data: xerial(data, 1),
    "a version to come": lambda data: xerial(data, header=XERIAL_HEADER[:8] + b"\0\0\0\2\0\0\0\2"),
    "two streams": xerial_two(XERIAL_HEADER),
    "two headers": behind(lambda data: XERIAL_HEADER + xerial(data), XERIAL_HEADER),
    "an empty block": behind(xerial, snappy_block(b"")),
    "3 bytes behind": behind(xerial, b"\0\0\1"),
    "a header with another magic behind": behind(xerial, b"\x82SNA" + bytes(12) + SOME),
    "two streams, the second of version 0": xerial_two(XERIAL_HEADER[:8] + bytes(8)),
    "version 0": lambda data: xerial(data, header=XERIAL_HEADER[:8] + bytes(8)),
    "half a header behind": behind(xerial, XERIAL_HEADER[:9]),
    "something else behind": behind(xerial, SOME),
    "something else behind raw": behind(snappy_raw, SOME),
    "a length of 0 behind": behind(xerial, bytes(4)),
    "a length below 0 behind": behind(xerial, b"\xff\xff\xff\xf0", SOME),
    "cut in a block": cut(xerial, 3),
    "cut raw": cut(snappy_raw, 3),
    "a header alone": lambda data: XERIAL_HEADER,
    "half a header": lambda data: XERIAL_HEADER[:12],
    "nothing": lambda data: b"",
}


# -- lz4 ------------------------------------------------------------------------------------


def lz4_frame(
    data: bytes,
    *,
    linked: bool = False,
    checksum: bool = False,
    block_checksum: bool = False,
    size: bool = False,
    block: int = 4,
    level: int = 0,
) -> bytes:
    return bytes(
        lz4.frame.compress(
            data,
            block_linked=linked,
            content_checksum=checksum,
            block_checksum=block_checksum,
            store_size=size,
            block_size=block,
            compression_level=level,
        )
    )


def lz4_header(flags: int, block: int = 0x40, more: bytes = b"", start: int = 4) -> bytes:
    """A header with its checksum, which old clients took from the magic on (`start` 0)."""
    described = LZ4_MAGIC + bytes([flags, block]) + more
    return described + bytes([xxhash.xxh32_intdigest(described[start:]) >> 8 & 0xFF])


def lz4_stored(data: bytes, header: bytes = lz4_header(0x60), size: int = 65536) -> bytes:
    """Blocks that are not compressed."""
    blocks = (struct.pack("<I", 1 << 31 | len(part)) + part for part in pieces(data, size))
    return header + b"".join(blocks) + bytes(4)


def lz4_flushed(data: bytes) -> bytes:
    """Many small blocks."""
    stream = lz4.frame.LZ4FrameCompressor(block_linked=False)
    parts = [stream.begin()]
    for part in pieces(data, 100):
        parts += [stream.compress(part), stream.flush()]
        stream.begin()
    return b"".join(parts)


def lz4_small_blocks(data: bytes) -> bytes:
    """One frame of many small blocks, each compressed or not."""
    out = [lz4_header(0x60)]
    for part in pieces(data, 100):
        packed = lz4_frame(part)
        out.append(packed[7:-4])
    return b"".join(out) + bytes(4)


def lz4_two(data: bytes) -> bytes:
    head, tail = halves(data)
    return lz4_frame(head) + lz4_frame(tail)


def lz4_old(data: bytes) -> bytes:
    """With the header's checksum as the first clients wrote it (KAFKA-3160)."""
    return lz4_header(0x60, start=0) + lz4_frame(data)[7:]


LZ4: Final[dict[str, Encode]] = {
    "of kafka-python": lambda data: bytes(kafka.codec.lz4_encode(data)),
    "of aiokafka": lambda data: bytes(aiokafka.codec.lz4_encode(data)),
    "blocks of 64 KiB": lz4_frame,
    "blocks of 4 MiB": lambda data: lz4_frame(data, block=7),
    "the thorough compressor": lambda data: lz4_frame(data, level=12),
    "a size of the content": lambda data: lz4_frame(data, size=True),
    "checksums of blocks": lambda data: lz4_frame(data, block_checksum=True),
    "a checksum of the content": lambda data: lz4_frame(data, checksum=True),
    "all checksums and the size": lambda data: lz4_frame(
        data, checksum=True, block_checksum=True, size=True, block=5
    ),
    "blocks that are not compressed": lz4_stored,
    "many small blocks": lz4_small_blocks,
    "a wrong size of the content": lambda data: (
        lz4_header(0x68, more=struct.pack("<Q", 5)) + lz4_frame(data)[7:]
    ),
    "a wrong checksum of the content": changed(lambda data: lz4_frame(data, checksum=True), -1),
    "something else behind": behind(lz4_frame, SOME),
    "a skippable frame behind": behind(lz4_frame, SKIPPABLE),
    "an empty frame behind": behind(lz4_frame, lz4_frame(b"")),
    "two frames": lz4_two,
    "a frame for every 100 bytes": lz4_flushed,
    "an empty frame first": before(lz4_frame, lz4_frame(b"")),
    "a skippable frame first": before(lz4_frame, SKIPPABLE),
    "linked blocks": lambda data: lz4_frame(data, linked=True),
    "a dictionary": lambda data: lz4_header(0x61, more=bytes(4)) + lz4_frame(data)[7:],
    "a reserved flag": lambda data: lz4_header(0x62) + lz4_frame(data)[7:],
    "version 2": lambda data: lz4_header(0xA0) + lz4_frame(data)[7:],
    "a block size of 3": lambda data: lz4_header(0x60, 0x30) + lz4_frame(data)[7:],
    "a reserved bit of the block size": lambda data: lz4_header(0x60, 0x41) + lz4_frame(data)[7:],
    "the old checksum of the header": lz4_old,
    "a wrong checksum of a block": changed(lambda data: lz4_frame(data, block_checksum=True), -5),
    "a block that is too long": lambda data: lz4_stored(data + bytes(70_000), size=65537),
    "no end mark": cut(lz4_frame, 4),
    "cut": cut(lz4_frame, 9),
    "no checksum of the content, though promised": cut(
        lambda data: lz4_frame(data, checksum=True), 4
    ),
    "the legacy format": lambda data: b"\x02\x21\x4c\x18" + lz4_frame(data)[7:],
    "nothing": lambda data: b"",
}


# -- zstd -----------------------------------------------------------------------------------


def zstd_frame(data: bytes, *, size: bool = True, checksum: bool = False, window: int = 0) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3,
        write_content_size=size,
        write_checksum=checksum,
        **({"window_log": window} if window else {}),
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    if size:
        return packer.compress(data)
    stream = packer.compressobj()
    return stream.compress(data) + stream.flush()


def zstd_flushed(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return b"".join(stream.compress(part) + stream.flush(flush) for part in pieces(data, 100)) + (
        stream.flush()
    )


def zstd_frames(size: int, between: bytes = b"", *, sized: bool = True) -> Encode:
    return lambda data: between.join(zstd_frame(part, size=sized) for part in pieces(data, size))


def zstd_two(second: Encode, between: bytes = b"") -> Encode:
    def encode(data: bytes) -> bytes:
        head, tail = halves(data)
        return zstd_frame(head) + between + second(tail)

    return encode


def zstd_summed(data: bytes) -> bytes:
    return zstd_frame(data, checksum=True)


def zstd_streamed(data: bytes) -> bytes:
    return zstd_frame(data, size=False)


ZSTD: Final[dict[str, Encode]] = {
    "of kafka-python": lambda data: bytes(kafka.codec.zstd_encode(data)),
    "of aiokafka": lambda data: bytes(aiokafka.codec.zstd_encode(data)),
    "a frame with its size": zstd_frame,
    "a frame that does not": zstd_streamed,
    "a checksum": zstd_summed,
    "a checksum, no size": lambda data: zstd_frame(data, size=False, checksum=True),
    "flushes": zstd_flushed,
    "the greatest window": lambda data: zstd_frame(data, size=False, window=27),
    "two frames": zstd_two(zstd_frame),
    "two frames, the second without a size": zstd_two(zstd_streamed),
    "two frames with checksums": zstd_two(zstd_summed),
    "a frame for every 40 bytes": zstd_frames(40),
    "a frame without a size for every 40 bytes": zstd_frames(40, sized=False),
    "a skippable frame first": before(zstd_frame, SKIPPABLE),
    "skippable frames between": zstd_two(zstd_frame, SKIPPABLE + EMPTY_SKIPPABLE),
    "a skippable frame behind": behind(zstd_frame, SKIPPABLE),
    "skippable frames everywhere": behind(
        before(zstd_frames(40, SKIPPABLE), SKIPPABLE, EMPTY_SKIPPABLE), SKIPPABLE, EMPTY_SKIPPABLE
    ),
    "an empty frame first": before(zstd_frame, zstd_frame(b"")),
    "an empty frame behind": behind(zstd_frame, zstd_frame(b"")),
    "empty frames without a size": behind(
        before(zstd_streamed, zstd_streamed(b"")), zstd_streamed(b"")
    ),
    "too great a window": lambda data: zstd_frame(data, size=False, window=28),
    "something else behind": behind(zstd_frame, SOME),
    "zeros behind": behind(zstd_frame, bytes(20)),
    "cut": cut(zstd_frame, 5),
    "cut, without a size": cut(zstd_streamed, 5),
    "no last block": lambda data: _zstd_unended(data),
    "cut in the checksum": cut(zstd_summed, 2),
    "a wrong checksum": changed(zstd_summed, -1),
    "a wrong checksum in the second frame": zstd_two(changed(zstd_summed, -1)),
    "two frames, the second cut": zstd_two(cut(zstd_frame, 5)),
    "two frames, the second cut in its checksum": zstd_two(cut(zstd_summed, 2)),
    "a skippable frame alone": lambda data: SKIPPABLE,
    "a skippable frame that is cut": lambda data: SKIPPABLE[:-1],
    "nothing": lambda data: b"",
}


def _zstd_unended(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


FORMS: Final[tuple[Form, ...]] = (
    *(Form(Codec.GZIP, name, encode) for name, encode in GZIP.items()),
    *(Form(Codec.SNAPPY, name, encode) for name, encode in SNAPPY.items()),
    *(Form(Codec.LZ4, name, encode) for name, encode in LZ4.items()),
    *(Form(Codec.ZSTD, name, encode) for name, encode in ZSTD.items()),
)

OLD_FORMS: Final[tuple[Form, ...]] = (
    Form(Codec.LZ4, "the old checksum of the header", lz4_old, 0),
    Form(Codec.LZ4, "the right checksum of the header", lz4_frame, 0),
    Form(Codec.LZ4, "a wrong checksum of the header", changed(lz4_frame, 6), 0),
    Form(
        Codec.LZ4,
        "the old checksum and a size",
        lambda data: (
            lz4_header(0x68, more=struct.pack("<Q", len(data)), start=0) + lz4_frame(data)[7:]
        ),
        0,
    ),
)
"""What Apache Kafka reads within messages of magic 0."""


def payloads() -> dict[str, bytes]:
    """Bytes to compress: some that shrink, some that do not, few and many."""
    noise = random.Random(5).randbytes
    return {
        "text": b"".join(b"record %d of many, " % number for number in range(60)),
        "noise": noise(700),
        "much": b"".join(b"a longer record %d; " % number for number in range(12_000)),
        "much noise": noise(200_000),
    }
