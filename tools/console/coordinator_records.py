"""Records of __consumer_offsets and __transaction_state, as JSON with Apache Kafka's names.

The tables below are its schemas, of 4.3: key and value of each type of record.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed

ALWAYS: Final = 0
NEVER: Final = 1000


class Field(NamedTuple):
    """One field of a record's value; of its key too, which has one version."""

    name: str
    type: str
    """int8 to int64, string, bytes or uuid; array for those with `fields`, else of `items`."""
    since: int = ALWAYS
    """The first version with it."""
    until: int = NEVER
    fields: tuple[Field, ...] = ()
    items: str = ""
    tag: int | None = None
    """Of a tagged field, which is shown where it is there."""


class Kind(NamedTuple):
    """One type of record."""

    key: tuple[Field, ...]
    value: tuple[Field, ...]
    last_version: int
    flexible: int
    """The first flexible version of values."""


_COMMIT_KEY: Final = (
    Field("group", "string"),
    Field("topic", "string"),
    Field("partition", "int32"),
)
_COMMIT: Final = (
    Field("offset", "int64"),
    Field("leaderEpoch", "int32", since=3),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
    Field("expireTimestamp", "int64", since=1, until=1),
    Field("topicId", "uuid", tag=0),
)
_MEMBER: Final = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", since=3),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", since=1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
_GROUP: Final = (
    Field("protocolType", "string"),
    Field("generation", "int32"),
    Field("protocol", "string"),
    Field("leader", "string"),
    Field("currentStateTimestamp", "int64", since=2),
    Field("members", "array", fields=_MEMBER),
)
_TRANSACTION: Final = (
    Field("producerId", "int64"),
    Field("previousProducerId", "int64", tag=0),
    Field("nextProducerId", "int64", tag=1),
    Field("producerEpoch", "int16"),
    Field("nextProducerEpoch", "int16", tag=3),
    Field("transactionTimeoutMs", "int32"),
    Field("transactionStatus", "int8"),
    Field(
        "transactionPartitions",
        "array",
        fields=(Field("topic", "string"), Field("partitionIds", "array", items="int32")),
    ),
    Field("transactionLastUpdateTimestampMs", "int64"),
    Field("transactionStartTimestampMs", "int64"),
    Field("clientTransactionVersion", "int16", tag=2),
)

OFFSETS: Final[Mapping[int, Kind]] = {
    0: Kind(_COMMIT_KEY, _COMMIT, 4, 4),
    1: Kind(_COMMIT_KEY, _COMMIT, 4, 4),
}
GROUPS: Final[Mapping[int, Kind]] = {2: Kind((Field("group", "string"),), _GROUP, 4, 4)}
TRANSACTIONS: Final[Mapping[int, Kind]] = {
    0: Kind((Field("transactionalId", "string"),), _TRANSACTION, 1, 1)
}

_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}


def offsets_json(record: Any) -> str | None:
    """A committed offset; None of another record. Failed if it can't be read."""
    return _json(record, OFFSETS)


def group_json(record: Any) -> str | None:
    """A classic group; None of another record. Failed if it can't be read."""
    return _json(record, GROUPS)


def transaction_json(record: Any) -> str | None:
    """A transaction; None of another record. Failed if it can't be read."""
    return _json(record, TRANSACTIONS)


def _json(record: Any, kinds: Mapping[int, Kind]) -> str | None:
    if record.key is None:
        return None
    try:
        return _document(bytes(record.key), record.value, kinds)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise Failed(f"Could not read record at offset {record.offset} due to: {error}") from error


def _document(key: bytes, value: bytes | None, kinds: Mapping[int, Kind]) -> str | None:
    reader = _Reader(key, is_flexible=False)
    type_id = reader.version("key")
    kind = kinds.get(type_id)
    if kind is None:
        return None
    shown: dict[str, Any] = {"key": {"type": type_id, "data": reader.fields(kind.key, 0)}}
    shown["value"] = None
    if value is not None:
        reader = _Reader(bytes(value), is_flexible=False)
        version = reader.version("value")
        if not 0 <= version <= kind.last_version:
            return None
        reader.is_flexible = version >= kind.flexible
        shown["value"] = {"version": version, "data": reader.fields(kind.value, version)}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


class _Reader:
    def __init__(self, data: bytes, *, is_flexible: bool) -> None:
        self._data = data
        self._at = 0
        self.is_flexible = is_flexible

    def fields(self, table: Sequence[Field], version: int) -> dict[str, Any]:
        """A struct, in the order of its table."""
        found = {
            field.name: self._one(field, version)
            for field in table
            if field.tag is None and field.since <= version <= field.until
        }
        if self.is_flexible:
            found |= self._tagged({field.tag: field for field in table if field.tag is not None})
        return {field.name: found[field.name] for field in table if field.name in found}

    def version(self, called: str) -> int:
        """The first two bytes. ValueError, with Apache Kafka's words."""
        try:
            return self.number("int16")
        except struct.error as error:
            raise ValueError(f"Could not read version from {called}'s buffer.") from error

    def number(self, kind: str) -> int:
        form = _NUMBERS[kind]
        (found,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(found)

    def _one(self, field: Field, version: int) -> Any:
        if field.type != "array":
            return self._plain(field.type)
        count = self._length("int32")
        if count < 0:
            return None
        if field.items:
            return [self._plain(field.items) for _ in range(count)]
        return [self.fields(field.fields, version) for _ in range(count)]

    def _plain(self, kind: str) -> Any:
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == "uuid":
            return base64.urlsafe_b64encode(self._take(16)).decode().rstrip("=")
        size = self._length("int16" if kind == "string" else "int32")
        if size < 0:
            return None
        data = self._take(size)
        return data.decode() if kind == "string" else base64.b64encode(data).decode()

    def _tagged(self, table: Mapping[int | None, Field]) -> dict[str, Any]:
        found = {}
        for _ in range(self._uvarint()):
            tag, size = self._uvarint(), self._uvarint()
            end = self._at + size
            field = table.get(tag)
            if field is not None:
                found[field.name] = self._plain(field.type)
            self._at = end
        return found

    def _length(self, kind: str) -> int:
        return self._uvarint() - 1 if self.is_flexible else self.number(kind)

    def _uvarint(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def _take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise ValueError(f"{size} bytes wanted, {len(data)} left")
        self._at += size
        return data
