"""The record of a classic group in `__consumer_offsets`. Pure.

Keys have version 2. Values have the versions 0 to 4; 3 is written, as Apache Kafka does: 4 is
flexible without new fields. The schemas are its GroupMetadataKey and GroupMetadataValue.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from kavka.log.journal import JournalRecord
from kavka.wire.fields import Reader
from kavka.wire.steps import Steps, each

KEY_VERSION: Final = 2
NO_TIME: Final = -1

_KEY_HEAD: Final = Struct(">hh")
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_TWO_INTS: Final = Struct(">ii")
_WRITTEN_VERSION: Final = 3
_LAST_VERSION: Final = 4
_FIRST_FLEXIBLE: Final = 4


class StoredMember(NamedTuple):
    """A member in its group's record."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    """-1 in values of version 0, which lack it."""

    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol."""

    assignment: bytes


class StoredGroup(NamedTuple):
    """The content of a value."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """When the group entered its state; `NO_TIME` in values of version 0 and 1."""

    members: Sequence[StoredMember]


def encode_key(group_id: str) -> bytes:
    """The key of a group's record."""
    return _SHORT.pack(KEY_VERSION) + _string(group_id)


def decode_key(key: bytes) -> str | None:
    """The group id; None if this is not the key of a group."""
    try:
        version, length = _KEY_HEAD.unpack_from(key)
        if version != KEY_VERSION or length < 0 or len(key) < 4 + length:
            return None
        return key[4 : 4 + length].decode()
    except (StructError, UnicodeDecodeError):
        return None


def encode(group: StoredGroup) -> Steps[bytes]:
    """A value. ValueError if a string is too long for it."""
    out = [
        _SHORT.pack(_WRITTEN_VERSION),
        _string(group.protocol_type),
        _INT.pack(group.generation),
        _nullable(group.protocol),
        _nullable(group.leader),
        _LONG.pack(group.since_ms),
        _INT.pack(len(group.members)),
    ]
    yield from each(group.members, lambda member: out.extend(_member(member)))
    return b"".join(out)


def _member(member: StoredMember) -> tuple[bytes, ...]:
    return (
        _string(member.member_id),
        _nullable(member.instance_id),
        _string(member.client_id),
        _string(member.client_host),
        _TWO_INTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
        _INT.pack(len(member.subscription)),
        member.subscription,
        _INT.pack(len(member.assignment)),
        member.assignment,
    )


def group_record(group_id: str, group: StoredGroup) -> Steps[JournalRecord]:
    """The record to append for a group."""
    return JournalRecord(encode_key(group_id), (yield from encode(group)))


def tombstone(group_id: str) -> JournalRecord:
    """The record that deletes a group."""
    return JournalRecord(encode_key(group_id), None)


def decode(value: bytes) -> Steps[StoredGroup | None]:
    """The content of a value; None if it can't be decoded, e.g. has a later version."""
    try:
        return (yield from _Reader(value).group())
    except ValueError:
        return None


def protocol_type_of(value: bytes) -> str | None:
    """The first field of a value; None if it can't be decoded."""
    try:
        return _Reader(value).protocol_type()
    except ValueError:
        return None


def _string(text: str) -> bytes:
    data = text.encode()
    try:
        return _SHORT.pack(len(data)) + data
    except StructError:
        raise ValueError(f"a string of {len(data)} bytes is too long for a record") from None


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


class _Reader(Reader):
    """Decodes one value. ValueError where it is malformed."""

    __slots__ = ("_is_flexible", "_version")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._version = self.int16()
        if not 0 <= self._version <= _LAST_VERSION:
            raise ValueError(f"version {self._version}")
        self._is_flexible = self._version >= _FIRST_FLEXIBLE

    def protocol_type(self) -> str:
        return self._string()

    def group(self) -> Steps[StoredGroup]:
        protocol_type = self.protocol_type()
        generation = self.int32()
        protocol = self._nullable()
        leader = self._nullable()
        since_ms = self.int64() if self._version >= 2 else NO_TIME
        members: list[StoredMember] = []
        count = range(self._length(_INT))
        yield from each(count, lambda _: members.append(self._member()))
        self._skip_tags()
        return StoredGroup(protocol_type, generation, protocol, leader, since_ms, members)

    def _member(self) -> StoredMember:
        member_id = self._string()
        instance_id = self._nullable() if self._version >= 3 else None
        client_id, client_host = self._string(), self._string()
        rebalance_timeout_ms = self.int32() if self._version >= 1 else -1
        session_timeout_ms = self.int32()
        subscription, assignment = self._data(), self._data()
        self._skip_tags()
        return StoredMember(
            member_id,
            instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms,
            session_timeout_ms,
            subscription,
            assignment,
        )

    def _length(self, plain: Struct) -> int:
        """The length of a string (2 bytes), of bytes or an array (4), or compact; -1 for null."""
        if self._is_flexible:
            return self.uvarint() - 1
        return int.from_bytes(self.take(plain.size), "big", signed=True)

    def _nullable(self) -> str | None:
        length = self._length(_SHORT)
        return None if length == -1 else self.take(length).decode()

    def _string(self) -> str:
        return self.take(self._length(_SHORT)).decode()

    def _data(self) -> bytes:
        return self.take(self._length(_INT))

    def _skip_tags(self) -> None:
        if not self._is_flexible:
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())
