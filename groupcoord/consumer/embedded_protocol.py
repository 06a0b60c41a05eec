"""The consumer protocol embedded in the classic protocol: subscriptions and assignments.

Source: Apache Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 to
3; fields of later versions are appended.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kavka.wire import fields
from kavka.wire.fields import Malformed, Reader

T = TypeVar("T")

VERSION_MAX: Final = 3
_NULL: Final = -1
_int32: Final = struct.Struct(">i").pack


class Subscription(NamedTuple):
    """`owned` partitions are by topic; version 0 does not have them."""

    topics: Sequence[str]
    owned: Mapping[str, Sequence[int]]
    rack_id: str | None


class Assignment(NamedTuple):
    partitions: Mapping[str, Sequence[int]]
    user_data: bytes


def version_of(metadata: bytes) -> int:
    """The version of the metadata. Malformed."""
    version = Reader(metadata).int16()
    if version < 0:
        raise Malformed(f"version {version}")
    return version


def read_subscription(metadata: bytes) -> Subscription:
    """Malformed."""
    version, reader = version_of(metadata), Reader(metadata, 2)
    topics = _array(reader, reader.key_string)
    _nullable_bytes(reader)
    owned: dict[str, list[int]] = {}
    rack_id = None
    if version >= 1:
        owned = dict(_array(reader, lambda: _topic(reader)))
    if version >= 2:
        reader.int32()
    if version >= 3:
        length = reader.int16()
        rack_id = None if length == _NULL else reader.take(length).decode("utf-8", "replace")
    return Subscription(topics, owned, rack_id or None)


def read_assignment(data: bytes) -> Assignment:
    """Malformed. No data is an empty assignment."""
    if not data:
        return Assignment({}, b"")
    version_of(data)
    reader = Reader(data, 2)
    partitions = dict(_array(reader, lambda: _topic(reader)))
    return Assignment(partitions, _nullable_bytes(reader))


def assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    """An assignment without user data, for a member that uses `version`."""
    out = bytearray(fields.int16(min(version, VERSION_MAX)))
    out += _int32(len(partitions))
    for topic, indexes in partitions.items():
        name = topic.encode()
        out += fields.int16(len(name)) + name + _int32(len(indexes))
        for index in indexes:
            out += _int32(index)
    return bytes(out + _int32(_NULL))


def _array(reader: Reader, read: Callable[[], T]) -> list[T]:
    count = reader.int32()
    if count > reader.left:
        raise Malformed(f"{count} elements, but {reader.left} bytes are left")
    return [read() for _ in range(count)]


def _topic(reader: Reader) -> tuple[str, list[int]]:
    return reader.key_string(), _array(reader, reader.int32)


def _nullable_bytes(reader: Reader) -> bytes:
    length = reader.int32()
    return b"" if length == _NULL else reader.take(length)
