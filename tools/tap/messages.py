"""What a decoded message says: topics, partitions, errors, and the whole of it as plain values.

It goes by the schemas, so that every API is treated alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from kavka.wire.codec import private_copy
from kavka.wire.errors import ErrorCode

TopicNames: TypeAlias = Callable[[UUID], str | None]
"""The name of a topic, by its id; None if no message had it."""

_TOPICS: Final = ("topic_name", "topic", "name", "topic_id")
_TOPICS_BY_NAME: Final = ("topic_name", "topic", "topic_id")
_PARTITIONS: Final = ("partition_index", "partition", "partition_id", "index")
_PARTITION_LISTS: Final = ("partitions", "partition_indexes")
_ERROR: Final = "error_code"

_NOTED: Final[Mapping[str, str]] = {
    "fetch_offset": "from",
    "base_offset": "at",
    "committed_offset": "committed",
    "timestamp": "time",
    "offset": "offset",
    "end_offset": "end",
    "high_watermark": "high watermark",
    "leader_id": "leader",
}
"""Numbers that are shown beside a partition, if they are not -1, and what they are called."""

_DETAILS: Final = (
    *("transactional_id", "group_id", "group", "member_id", "group_instance_id", "generation_id"),
    *("member_epoch", "acks", "max_wait_ms", "session_id", "session_epoch", "key"),
    *("coordinator_keys", "groups_names", "mechanism", "host", "port", "node_id", "producer_id"),
    *("client_software_name", "client_software_version", "throttle_time_ms"),
)
"""Fields at the top of a message that are shown, if they are set."""

_SECRET: Final = ("auth_bytes", "hmac", "salt", "salted_password")


@dataclass
class Part:
    """What a message says of a topic, or of one of its partitions."""

    topic: str
    partition: int | None = None
    bytes: int | None = None
    """Those of its records."""
    records: memoryview | None = None
    error: str | None = None
    notes: dict[str, int] = field(default_factory=dict)


@dataclass
class Content:
    """What a message says in short."""

    parts: list[Part] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Every error named in it, once each, in the order of appearance."""
    details: dict[str, Any] = field(default_factory=dict)


def error_name(code: int) -> str:
    """An error's name, or its number if it has none."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)


def content_of(message: Any, name: str, version: int, topics: TopicNames) -> Content:
    """What a message of the class `name` says."""
    found = Content()
    fields = private_copy.message_class(name)._struct.fields
    for detail in _DETAILS:
        if detail in fields and fields[detail].for_version_q(version):
            value = getattr(message, detail)
            if value not in (None, "", 0, -1) and not _is_struct(value):
                found.details[detail] = value
    if "acks" in fields:
        found.details["acks"] = message.acks
    _Walk(version, topics, found).struct(message, fields, None)
    return found


def _is_struct(value: Any) -> bool:
    return not isinstance(value, str | int | float | UUID | list | tuple)


class _Walk:
    def __init__(self, version: int, topics: TopicNames, found: Content) -> None:
        self._version = version
        self._topics = topics
        self._found = found

    def struct(self, value: Any, fields: Any, topic: str | None) -> None:
        """Look through a struct and those in it; `topic`: the one that it belongs to."""
        named = self._topic(value, fields)
        part = self._part(value, fields, topic if named is None else named, named is not None)
        if _ERROR in fields and (code := getattr(value, _ERROR, 0)):
            self._error(error_name(code), part)
        for name, inner in self._fields(fields):
            content = getattr(value, name, None)
            if content is None:
                continue
            below = named if named is not None else topic
            if inner.is_struct_array():
                for item in content:
                    self.struct(item, inner.fields, below)
            elif inner.is_struct():
                self.struct(content, inner.fields, below)
            elif inner.is_array() and inner.array_of._entity_type == "topicName":
                self._found.parts += [Part(topic_name) for topic_name in content]

    def _fields(self, fields: Any) -> Iterator[tuple[str, Any]]:
        for name, wire_field in fields.items():
            if wire_field.for_version_q(self._version):
                yield name, wire_field

    def _error(self, name: str, part: Part | None) -> None:
        if part is not None:
            part.error = name
        if name not in self._found.errors:
            self._found.errors.append(name)

    def _topic(self, value: Any, fields: Any) -> str | None:
        for name in _TOPICS:
            wire_field = fields.get(name)
            if wire_field is None or not wire_field.for_version_q(self._version):
                continue
            if wire_field.is_array() or wire_field.is_struct_array():
                continue
            if name in _TOPICS_BY_NAME or wire_field._entity_type == "topicName":
                found = getattr(value, name, None)
                if isinstance(found, UUID):
                    if found.int:
                        return self._topics(found) or str(found)
                elif found is not None and (found or "topic_id" not in fields):
                    return str(found)
        return None

    def _part(self, value: Any, fields: Any, topic: str | None, is_topic: bool) -> Part | None:
        """The part of a struct that is a topic or a partition."""
        if topic is None:
            return None
        for name in _PARTITIONS:
            wire_field = fields.get(name)
            if wire_field is not None and wire_field.for_version_q(self._version):
                part = Part(topic, getattr(value, name))
                self._found.parts.append(self._noted(part, value, fields))
                return part
        if not is_topic:
            return None
        for name in _PARTITION_LISTS:
            wire_field = fields.get(name)
            if wire_field is None or not wire_field.for_version_q(self._version):
                continue
            if wire_field.is_struct_array():
                return self._topic_with_error(topic, value, fields)
            if wire_field.is_array():
                listed = getattr(value, name) or ()
                self._found.parts += [Part(topic, index) for index in listed]
                return self._topic_with_error(topic, value, fields)
        if any(
            wire_field.is_struct_array()
            for name, wire_field in self._fields(fields)
            if "partition" in name
        ):
            return self._topic_with_error(topic, value, fields)
        part = Part(topic)
        self._found.parts.append(part)
        return part

    def _topic_with_error(self, topic: str, value: Any, fields: Any) -> Part | None:
        """A part for the topic as a whole, if it has an error; else its partitions are enough."""
        if not getattr(value, _ERROR, 0) or _ERROR not in fields:
            return None
        part = Part(topic)
        self._found.parts.append(part)
        return part

    def _noted(self, part: Part, value: Any, fields: Any) -> Part:
        for name, wire_field in self._fields(fields):
            content = getattr(value, name, None)
            if wire_field.type_str == "records":
                part.bytes = 0 if content is None else len(content)
                part.records = content
            elif name in _NOTED and isinstance(content, int) and content != -1:
                part.notes[_NOTED[name]] = content
        return part


# -- the whole message -------------------------------------------------------------------------


Records: TypeAlias = Callable[[Any], Any]
"""Plain values for the records of a partition."""


def plain(message: Any, name: str, version: int, records: Records) -> dict[str, Any]:
    """The whole message, of the class `name`, as what JSON has."""
    return _plain_struct(message, private_copy.message_class(name)._struct.fields, version, records)


def _plain_struct(value: Any, fields: Any, version: int, records: Records) -> dict[str, Any]:
    return {
        name: _plain(getattr(value, name, None), name, wire_field, version, records)
        for name, wire_field in fields.items()
        if wire_field.for_version_q(version)
    }


def _plain(value: Any, name: str, wire_field: Any, version: int, records: Records) -> Any:
    if value is None:
        return None
    if name in _SECRET:
        return f"({len(value)} bytes)"
    if wire_field.type_str == "records":
        return records(value)
    if wire_field.is_struct_array():
        return [_plain_struct(item, wire_field.fields, version, records) for item in value]
    if wire_field.is_struct():
        return _plain_struct(value, wire_field.fields, version, records)
    if isinstance(value, list | tuple):
        return [_scalar(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return text_of(value)
    return str(value) if isinstance(value, UUID) else value


def text_of(value: bytes | bytearray | memoryview) -> str:
    """Bytes as text, if they are printable UTF-8, else as 0x and hexadecimal digits."""
    data = bytes(value)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return text if text.isprintable() else "0x" + data.hex()
