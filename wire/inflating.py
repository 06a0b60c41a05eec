"""Inflating and compressing records that may be little or much: a little is done at once, the rest
by a thread (see `kavka.wire.steps`).
"""

from __future__ import annotations

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


def inflate(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The records. ApiError CORRUPT_MESSAGE when they cannot be inflated, or grow too much."""
    if len(packed) < JOB_BYTES_MIN:
        try:
            return decompress(codec, packed, JOB_BYTES_MIN * INFLATED_RATIO)
        except ApiError:
            pass  # too big for the loop, or damaged: found out in the thread
    return (yield from inflate_in_thread(codec, packed))


def inflate_in_thread(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The same for what is known to be much."""
    if codec == Codec.NONE:
        return packed
    limit_bytes = max(INFLATED_BYTES_MAX, len(packed) * INFLATED_RATIO)
    inflated: Bytes = yield decompress, codec, packed, limit_bytes
    return inflated


def deflate(codec: int, data: Bytes, level: int | None = None) -> Steps[Bytes]:
    """`data` compressed as `compressing.compress` does."""
    if len(data) <= COMPRESSED_AT_ONCE_BYTES_MAX:
        return compress(codec, data, level)
    deflated: Bytes = yield compress, codec, data, level
    return deflated
