"""Inflating, compressing, joining and giving back records that may be little or much: a little is
done at once, the rest by a thread or in pieces (see `kavka.wire.steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.wire.compressing import compress
from kavka.wire.compression import Bytes, Codec, decompress
from kavka.wire.errors import ApiError
from kavka.wire.steps import Steps

INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Records that grow beyond this when decompressed are not opened, unless they are so big that
`INFLATED_RATIO` allows more. Apache Kafka would open them."""

INFLATED_RATIO: Final = 8
"""Records may always grow to so many times their size."""

JOB_BYTES_MIN: Final = 64 * 1024
"""Records from this size on are inflated in a thread, and those that grow beyond eight times
this: a kilobyte may become a hundred megabytes, which takes a tenth of a second."""

COMPRESSED_AT_ONCE_BYTES_MAX: Final = 32 * 1024
"""Records up to this size are compressed without a thread: gzip makes 30 MB a second."""

JOINED_AT_ONCE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Records up to this size are put into one piece without a thread; 0.5 ms."""


def decompress_in_steps(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The records. ApiError CORRUPT_MESSAGE when they cannot be inflated, or grow too much."""
    if len(packed) < JOB_BYTES_MIN:
        try:
            return decompress(codec, packed, JOB_BYTES_MIN * INFLATED_RATIO)
        except ApiError:
            pass  # too big for the loop, or damaged: found out in the thread
    return (yield from decompress_in_thread(codec, packed))


def decompress_in_thread(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The same for what is known to be much."""
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
    """`parts`, of `size` bytes together, in one; a thread lets go of the interpreter meanwhile
    where all of them are `bytes`."""
    if size <= JOINED_AT_ONCE_BYTES_MAX:
        return bytearray().join(parts)
    whole: bytearray = yield bytearray().join, parts
    return whole


def free_in_steps(records: Bytes) -> Steps[None]:
    """Free what is read no more in pieces: at once that takes 5 ms for 27 MB. A `bytearray` gives
    memory back when less than half of it is left."""
    while isinstance(records, bytearray) and len(records) > JOINED_AT_ONCE_BYTES_MAX:
        yield None
        del records[len(records) // 2 - 1 :]
