"""Up-conversion of an old producer's message set (magic 0 or 1) to one batch of magic 2.

Validation and error codes are those of Apache Kafka's `UnifiedLog` and `LogValidator`: first the
size and CRC of every message, then their content. Offsets are reassigned from 0 on. The topic's
rules (keys, timestamps, batch size) are checked afterwards, as for any other batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.wire import record_batches
from kavka.wire.building import varint
from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import (
    compress_in_steps,
    decompress_in_steps,
    free_in_steps,
    join_in_steps,
)
from kavka.wire.message_set import (
    CODEC_MASK,
    CRC_START,
    HEAD,
    HEADS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MESSAGE_BYTES_MIN,
    NO_TIMESTAMP,
    unpack_length,
)
from kavka.wire.old_lz4 import with_valid_checksum
from kavka.wire.steps import Steps

RECORDS_PER_STEP: Final = 512
"""Messages before a pause; at 3 us each, a millisecond and a half."""

BYTES_PER_STEP: Final = 512 * 1024
"""Bytes of messages before a pause, if they are big; 0.5 ms."""

INLINE_CRC_BYTES_MAX: Final = 1024 * 1024
"""Messages up to this size are checked without a thread; 0.3 ms."""

_KEPT_VARINTS: Final = 4096
_NOTHING: Final = varint(-1)
_EMPTY: Final = memoryview(b"")
_CRC_AT: Final = 17
_LONG: Final = 2**64 - 1
_HALF: Final = 2**63
_pack_crc: Final = struct.Struct(">I").pack_into

_kept: Final[list[bytes]] = []


def up_convert(
    message_set: memoryview,
    *,
    bytes_max: int,
    codec: int | None = None,
    level: Callable[[int], int | None] = lambda codec: None,
) -> Steps[Bytes]:
    """One batch of all records, compressed by `codec` (None: the producer's) at the `level` of that
    codec.

    The batch has base offset 0, no producer id, and the LogAppendTime flag if one of the messages
    has it. A truncated last message is dropped; without a complete one the result is `b""`, and
    nothing is to be appended. `bytes_max` is the limit for each message as sent, and for the
    batch.
    ApiError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, and
    UNKNOWN_SERVER_ERROR where Apache Kafka has an unexpected exception.
    """
    found = yield from _checked(message_set, bytes_max)
    if not found.positions:
        return b""
    if found.codec and len(found.positions) > 1:
        raise _invalid("a compressed message among others")
    if found.mixed:
        raise _invalid("messages of several magics")
    batch = _NewBatch()
    try:
        if found.codec == Codec.NONE:
            yield from _append_plain(message_set, found.positions, batch)
        else:
            yield from _append_wrapped(message_set, batch)
    except struct.error:
        raise _unexpected("a message that is shorter than its fields") from None
    target_codec = found.codec if codec is None else codec
    return (yield from batch.finish(target_codec, level(target_codec), bytes_max))


# -- the messages as they were sent ---------------------------------------------------------


class _Sent(NamedTuple):
    """The positions of all complete messages, the codec of the wrapper, and whether their magic
    differs."""

    positions: list[int]
    codec: int
    mixed: bool


def _checked(view: memoryview, bytes_max: int) -> Steps[_Sent]:
    """Check size and CRC of all complete messages; a truncated one may follow."""
    positions: list[int] = []
    position, held, pause_at = 0, len(view), BYTES_PER_STEP
    first_magic, sent_codec, mixed = view[MAGIC_AT] if held > MAGIC_AT else 0, 0, False
    while held - position > MAGIC_AT:
        _, size, crc, magic, attributes = _head(view, position)
        end = position + LOG_OVERHEAD_BYTES + size
        if size < MESSAGE_BYTES_MIN or magic > record_batches.CURRENT_MAGIC:
            raise _corrupt(f"a message of {size} bytes with magic {magic}")
        if end > held:
            break
        if end - position > bytes_max:
            message = f"{end - position} bytes, allowed are {bytes_max}"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, message)
        if magic >= len(HEADS):
            raise _invalid("a batch among messages")
        covered = view[position + CRC_START : end]
        if size <= INLINE_CRC_BYTES_MAX:
            found = zlib.crc32(covered)
        else:
            found = yield zlib.crc32, covered
        if found != crc:
            raise _corrupt("the CRC does not fit the message")
        codec = attributes & CODEC_MASK
        if codec > Codec.ZSTD:
            raise _unexpected(f"unknown compression codec {codec}")
        sent_codec = codec or sent_codec
        mixed = mixed or magic != first_magic
        positions.append(position)
        position = end
        if position >= pause_at or len(positions) % RECORDS_PER_STEP == 0:
            pause_at = position + BYTES_PER_STEP
            yield None
    return _Sent(positions, sent_codec, mixed)


def _head(view: memoryview, position: int) -> tuple[int, int, int, int, int]:
    if len(view) - position >= HEAD.size:
        head: tuple[int, int, int, int, int] = HEAD.unpack_from(view, position)
        return head
    (size,) = unpack_length(view, position + 8)
    return 0, size, 0, view[position + MAGIC_AT], 0


def _append_plain(view: memoryview, positions: list[int], batch: _NewBatch) -> Steps[None]:
    pause_at = BYTES_PER_STEP
    for number, position in enumerate(positions, 1):
        _, _, _, attributes, timestamp, key, value = _message(view, position)
        batch.append(timestamp, attributes, key, value)
        if position >= pause_at or number % RECORDS_PER_STEP == 0:
            pause_at = position + BYTES_PER_STEP
            batch.close_part()
            yield None


_Message = tuple[int, int, int, int, int, memoryview | None, memoryview | None]


def _message(view: memoryview, position: int) -> _Message:
    """(offset, size, CRC, attributes, timestamp, key, value) of a complete message."""
    magic = view[position + MAGIC_AT]
    if magic:
        offset, size, crc, _, attributes, timestamp, key_size = HEADS[1].unpack_from(view, position)
        at = position + HEADS[1].size
    else:
        offset, size, crc, _, attributes, key_size = HEADS[0].unpack_from(view, position)
        at = position + HEADS[0].size
        timestamp = NO_TIMESTAMP
        attributes &= ~LOG_APPEND_TIME
    end = position + LOG_OVERHEAD_BYTES + size
    key = value = None
    if key_size >= 0:
        key = view[at : at + key_size]
        at += key_size
    if at + 4 > end:
        raise _unexpected(f"a key of {key_size} bytes in a message of {size}")
    (value_size,) = unpack_length(view, at)
    if value_size >= 0:
        value = view[at + 4 : at + 4 + value_size]
        if at + 4 + value_size > end:
            raise _unexpected(f"a value of {value_size} bytes in a message of {size}")
    return offset, size, crc, attributes, timestamp, key, value


# -- wrappers -------------------------------------------------------------------------------


def _append_wrapped(view: memoryview, batch: _NewBatch) -> Steps[None]:
    magic = view[MAGIC_AT]
    offset, _, _, attributes, timestamp, _, value = _message(view, 0)
    codec = attributes & CODEC_MASK
    if codec == Codec.ZSTD:
        raise _invalid(f"zstd with magic {magic}")
    if value is None:
        raise _invalid("a compressed message without a value")
    inner = yield from _inflated(codec, value, magic)
    stamp = timestamp if attributes & LOG_APPEND_TIME else None
    last_offset = yield from _append_inner(memoryview(inner), magic, stamp, batch)
    yield from free_in_steps(inner)
    if not batch.count:
        raise _invalid("a compressed message with nothing in it")
    if magic and offset and offset < last_offset:
        raise _invalid(f"offset {offset} around messages up to {last_offset}")


def _inflated(codec: int, value: memoryview, magic: int) -> Steps[Bytes]:
    data = memoryview(with_valid_checksum(value)) if codec == Codec.LZ4 and not magic else value
    try:
        return (yield from decompress_in_steps(codec, data))
    except ApiError as failure:
        raise _unexpected(str(failure)) from None


def _append_inner(view: memoryview, magic: int, stamp: int | None, batch: _NewBatch) -> Steps[int]:
    """Append the messages inside a wrapper; the offset of the last one. `stamp`: the wrapper's
    LogAppendTime, which is then the timestamp of all of them."""
    position, held, offset, pause_at = 0, len(view), -1, BYTES_PER_STEP
    while held - position >= LOG_OVERHEAD_BYTES:
        (size,) = unpack_length(view, position + 8)
        end = position + LOG_OVERHEAD_BYTES + size
        if size < MESSAGE_BYTES_MIN:
            raise _corrupt(f"a message of {size} bytes within another")
        if end > held:
            break
        if view[position + MAGIC_AT] != magic:
            raise _invalid(f"magic {view[position + MAGIC_AT]} within magic {magic}")
        offset, _, crc, attributes, timestamp, key, value = _message(view, position)
        if zlib.crc32(view[position + CRC_START : end]) != crc:
            raise _corrupt("the CRC does not fit a message within another")
        if attributes & CODEC_MASK:
            raise _invalid("a compressed message within another")
        if stamp is None:
            batch.append(timestamp, attributes & ~LOG_APPEND_TIME, key, value)
        else:
            batch.append(stamp, LOG_APPEND_TIME, key, value)
        position = end
        if position >= pause_at or batch.count % RECORDS_PER_STEP == 0:
            pause_at = position + BYTES_PER_STEP
            batch.close_part()
            yield None
    return offset


# -- the batch ------------------------------------------------------------------------------


class _NewBatch:
    """Builds a batch.

    Its pieces are joined at the end, in a thread if they are big: a growing `bytearray` is moved
    now and then, which for 27 MB takes 10 ms.
    """

    __slots__ = (
        "_base_timestamp",
        "_bytes",
        "_flags",
        "_max_timestamp",
        "_parts",
        "_records",
        "count",
    )

    def __init__(self) -> None:
        self.count = 0
        self._bytes = 0
        self._records: list[bytes] = []
        self._parts: list[bytes] = []
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._flags = 0
        if not _kept:
            _kept.extend(varint(number) for number in range(_KEPT_VARINTS))

    def append(
        self, timestamp: int, attributes: int, key: memoryview | None, value: memoryview | None
    ) -> None:
        """Add a record; the offset is the next one."""
        number = self.count
        if timestamp < NO_TIMESTAMP:
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp}")
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        if not number:
            self._base_timestamp = timestamp
        self._flags |= attributes & LOG_APPEND_TIME
        self.count = number + 1
        time = _varint(timestamp - self._base_timestamp)
        delta = _varint(number)
        if key is None:
            key_length, key = _NOTHING, _EMPTY
        else:
            key_length = _varint(len(key))
        if value is None:
            value_length, value = _NOTHING, _EMPTY
        else:
            value_length = _varint(len(value))
        before_key = b"\0" + time + delta + key_length
        size = len(before_key) + len(key) + len(value_length) + len(value) + 1
        record = b"".join((_varint(size), before_key, key, value_length, value, b"\0"))
        self._bytes += len(record)
        self._records.append(record)

    def close_part(self) -> None:
        """Join what was appended since the last call into one piece; before each pause."""
        self._parts.append(b"".join(self._records))
        self._records.clear()

    def finish(self, codec: int, level: int | None, bytes_max: int) -> Steps[Bytes]:
        """The batch, compressed; ApiError MESSAGE_TOO_LARGE."""
        self.close_part()
        parts, size = self._parts, self._bytes
        if codec:
            inner = yield from join_in_steps(parts, size)
            parts = [bytes((yield from compress_in_steps(codec, inner, level)))]
            size = len(parts[0])
            yield from free_in_steps(inner)
        if record_batches.HEADER_BYTES + size > bytes_max:
            message = (
                f"{record_batches.HEADER_BYTES + size} bytes as a batch, allowed are {bytes_max}"
            )
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, message)
        batch = yield from join_in_steps([bytes(record_batches.HEADER_BYTES), *parts], size)
        self._write_header(batch, codec)
        return batch

    def _write_header(self, batch: bytearray, codec: int) -> None:
        record_batches.HEADER.pack_into(
            batch,
            0,
            0,
            len(batch) - record_batches.LENGTH_PREFIX_BYTES,
            -1,
            record_batches.CURRENT_MAGIC,
            0,
            codec | self._flags,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp,
            record_batches.NO_PRODUCER_ID,
            -1,
            record_batches.NO_SEQUENCE,
            self.count,
        )
        _pack_crc(batch, _CRC_AT, record_batches.crc_of(batch))


def _varint(value: int) -> bytes:
    if 0 <= value < _KEPT_VARINTS:
        return _kept[value]
    return varint((value + _HALF & _LONG) - _HALF)  # differences overflow as in Java


def _corrupt(message: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


def _unexpected(message: str) -> ApiError:
    """The error code that Apache Kafka responds with where these bytes make it throw an exception
    that none of its checks expects."""
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
