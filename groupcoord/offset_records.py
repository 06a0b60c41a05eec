"""The records of committed offsets in `__consumer_offsets`. Pure.

Keys have the versions 0 and 1, with the same format; 1 is written. Values have the versions 0 to
4; 4 is written, and 1 if the offset has an own expiry time (OffsetCommit 2 to 4), as Apache Kafka
4.3 does. The schemas are its OffsetCommitKey and OffsetCommitValue.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from uuid import UUID

from kavka.log.journal import JournalRecord
from kavka.wire.fields import uvarint

NO_TOPIC_ID: Final = UUID(int=0)
NO_TIME: Final = -1
NO_EPOCH: Final = -1

_KEY_VERSION: Final = b"\x00\x01"
_LENGTH: Final = Struct(">H")
PARTITION: Final = Struct(">i")
"""The end of a key."""

_V1_HEAD: Final = Struct(">hqH")
_V1_TAIL: Final = Struct(">qq")
_V4_HEAD: Final = Struct(">hqi")
_V4_BARE: Final = Struct(">hqiBq")
"""A value with empty metadata, up to its tagged fields."""

_LONG: Final = Struct(">q")
_NO_TAGS: Final = b"\x00"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tagged field follows: tag 0, 16 bytes."""

TOMBSTONE_BYTES_PER_STEP: Final = 500_000
"""Bytes of keys in one batch of tombstones: half of what a batch may hold."""

TAGS_KEPT_MAX: Final = 1000
"""Cached topic ids, by their encoded bytes."""

_TOPIC_ID_BYTES: Final = 16
_V4_LEAST: Final = 24
"""Bytes of a value of version 3 or 4 with neither metadata nor topic id."""


class CommittedOffset(NamedTuple):
    """The content of a value."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int
    """`NO_TIME` where the broker's retention applies."""

    topic_id: UUID


def topic_key(group_id: str, topic: str) -> bytes:
    """A key without its partition."""
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    return b"%b%b%b%b%b" % (
        _KEY_VERSION,
        _LENGTH.pack(len(group_bytes)),
        group_bytes,
        _LENGTH.pack(len(topic_bytes)),
        topic_bytes,
    )


def partition_key(topic_key: bytes, partition: int) -> bytes:
    """The whole key of one partition."""
    return topic_key + PARTITION.pack(partition)


def tombstone(group_id: str, topic: str, partition: int) -> JournalRecord:
    """The record that deletes one offset."""
    return JournalRecord(partition_key(topic_key(group_id, topic), partition), None)


def split_topic_key(key: bytes) -> tuple[str, str] | None:
    """Group and topic of a `topic_key`; None if it is malformed."""
    try:
        (group_length,) = _LENGTH.unpack_from(key, 2)
        (topic_length,) = _LENGTH.unpack_from(key, 4 + group_length)
        if len(key) != 6 + group_length + topic_length:
            return None
        return key[4 : 4 + group_length].decode(), key[6 + group_length :].decode()
    except (StructError, UnicodeDecodeError):
        return None


def encode(committed: CommittedOffset) -> bytes:
    """A value."""
    offset, epoch, metadata, at_ms, expires_at_ms, topic_id = committed
    text = metadata.encode()
    if expires_at_ms != NO_TIME:
        head = _V1_HEAD.pack(1, offset, len(text))
        return head + text + _V1_TAIL.pack(at_ms, expires_at_ms)
    return encode_lasting(offset, epoch, text, at_ms, tagged_fields(topic_id))


def encode_lasting(offset: int, epoch: int, metadata: bytes, at_ms: int, tags: bytes) -> bytes:
    """A value without an own expiry time, with the `tagged_fields` of its topic."""
    if not metadata:
        return _V4_BARE.pack(4, offset, epoch, 1, at_ms) + tags
    head, length = _V4_HEAD.pack(4, offset, epoch), uvarint(len(metadata) + 1)
    return b"%b%b%b%b%b" % (head, length, metadata, _LONG.pack(at_ms), tags)


def tagged_fields(topic_id: UUID) -> bytes:
    """The end of a value of version 4."""
    return _TOPIC_ID_TAG + topic_id.bytes if topic_id.int else _NO_TAGS


def decode(value: bytes) -> CommittedOffset | None:
    """The content of a value; None if it can't be decoded."""
    try:
        version = int.from_bytes(value[:2], "big")
        if version == 4:
            return _decode_flexible(value)
        if version < 4:
            return _decode_plain(value, version)
    except (StructError, IndexError):
        pass
    return None


def offset_in_topic(value: bytes, topic_id: UUID) -> int | None:
    """The offset in a value; None if it belongs to another topic (perhaps of the same name) or
    can't be decoded."""
    if not value.endswith(tagged_fields(topic_id)):
        committed = decode(value)
        if committed is None or are_different(committed.topic_id, topic_id):
            return None
    offset: int = _LONG.unpack_from(value, 2)[0]  # the same position in every version
    return offset


def are_different(topic_id: UUID, other_id: UUID) -> bool:
    """Whether two topic ids are known and differ."""
    return topic_id.int != other_id.int and topic_id.int != 0 and other_id.int != 0


def _decode_plain(value: bytes, version: int) -> CommittedOffset | None:
    (offset,) = _LONG.unpack_from(value, 2)
    epoch, at = NO_EPOCH, 10
    if version == 3:
        (epoch,) = PARTITION.unpack_from(value, at)
        at += 4
    (length,) = _LENGTH.unpack_from(value, at)
    end = at + 2 + length
    (committed_at_ms,) = _LONG.unpack_from(value, end)
    expires_at_ms = _LONG.unpack_from(value, end + 8)[0] if version == 1 else NO_TIME
    metadata = value[at + 2 : end].decode(errors="replace")
    return CommittedOffset(offset, epoch, metadata, committed_at_ms, expires_at_ms, NO_TOPIC_ID)


def _decode_flexible(value: bytes) -> CommittedOffset | None:
    _, offset, epoch = _V4_HEAD.unpack_from(value)
    length, at = value[14], 15
    if length > 127:
        length, at = _read_unsigned_varint(value, 14)
    if length == 0:  # null, which the schema does not allow
        return None
    end = at + length - 1
    (committed_at_ms,) = _LONG.unpack_from(value, end)
    topic_id = _topic_id(value[end + 8 :])
    metadata = value[at:end].decode(errors="replace")
    return CommittedOffset(offset, epoch, metadata, committed_at_ms, NO_TIME, topic_id)


@lru_cache(maxsize=TAGS_KEPT_MAX)
def _topic_id(value: bytes) -> UUID:
    """The topic id in the tagged fields, which are the same for all offsets of a topic."""
    tags, at = _read_unsigned_varint(value, 0)
    for _ in range(tags):
        tag, at = _read_unsigned_varint(value, at)
        size, at = _read_unsigned_varint(value, at)
        if at + size > len(value):
            raise IndexError
        if tag == 0:
            if size != _TOPIC_ID_BYTES:
                raise IndexError
            return UUID(bytes=value[at : at + size])
        at += size
    return NO_TOPIC_ID


def is_sound(value: bytes) -> bool:
    """Whether `decode` can decode a value; fast for the values that brokers write."""
    size = len(value)
    if size >= _V4_LEAST:
        if value[1] == 4:
            # metadata shorter than 127 bytes has a one-byte length, which is the length plus one
            spare = size - value[14] - 23
            if spare == 0 and not value[-1] and not value[0] and 0 < value[14] < 128:
                return True
            if spare == 18 and value[-19:-16] == _TOPIC_ID_TAG and not value[0]:
                return 0 < value[14] < 128
        elif value[1] == 3 and not value[0]:
            return size >= 24 + (value[14] << 8) + value[15]
    return decode(value) is not None


def _read_unsigned_varint(value: bytes, at: int) -> tuple[int, int]:
    """(value, position after it)."""
    number = 0
    for shift in range(0, 35, 7):
        byte = value[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise IndexError
