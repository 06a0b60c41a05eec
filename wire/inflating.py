"""Decompress, compress, join and free records: small ones inline, big ones in a thread or in
steps (see `kavka.wire.steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.wire.compressing import compress
from kavka.wire.compression import Bytes, Codec, decompress
from kavka.wire.errors import ApiError
from kavka.wire.steps import Steps

INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of decompressed records, unless `INFLATED_RATIO` times their compressed size is more.
Apache Kafka has no such limit."""

INFLATED_RATIO: Final = 8
"""Records may always decompress to this many times their size."""

JOB_BYTES_MIN: Final = 64 * 1024
"""Records of this size or more are decompressed in a thread, and so are those that decompress to
more than eight times this: a kilobyte may become a hundred megabytes, which takes 0.1 s."""

COMPRESSED_AT_ONCE_BYTES_MAX: Final = 32 * 1024
"""Records up to this size are compressed without a thread: gzip makes 30 MB a second."""

JOINED_AT_ONCE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Records up to this size are joined without a thread; 0.5 ms."""


def decompress_in_steps(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The records. ApiError CORRUPT_MESSAGE when they are corrupt or exceed the limit."""
    if len(packed) < JOB_BYTES_MIN:
        try:
            return decompress(codec, packed, JOB_BYTES_MIN * INFLATED_RATIO)
        except ApiError:
            pass  # too big for the loop, or corrupt: the thread finds out which
    return (yield from decompress_in_thread(codec, packed))


def decompress_in_thread(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The same, always in a thread."""
    if codec == Codec.NONE:
        return packed
    limit_bytes = max(INFLATED_BYTES_MAX, len(packed) * INFLATED_RATIO)
    inflated: Bytes = yield decompress, codec, packed, limit_bytes
    return inflated


def compress_in_steps(codec: int, data: Bytes, level: int | None = None) -> Steps[Bytes]:
    """`data` compressed as `compressing.compress` does."""
    if len(data) <= COMPRESSED_AT_ONCE_BYTES_MAX:
        return compress(codec, data, level)
    deflated: Bytes = yield compress, codec, data, level
    return deflated


def join_in_steps(parts: Sequence[Bytes], size: int) -> Steps[bytearray]:
    """`parts`, of `size` bytes together, joined; in a thread this releases the GIL if all of them
    are `bytes`."""
    if size <= JOINED_AT_ONCE_BYTES_MAX:
        return bytearray().join(parts)
    whole: bytearray = yield bytearray().join, parts
    return whole


def free_in_steps(records: Bytes) -> Steps[None]:
    """Free records that are no longer needed piece by piece: at once it takes 5 ms for 27 MB. A
    `bytearray` returns memory when it shrinks to less than half."""
    while isinstance(records, bytearray) and len(records) > JOINED_AT_ONCE_BYTES_MAX:
        yield None
        del records[len(records) // 2 - 1 :]
