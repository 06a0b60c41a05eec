"""Messages as JSON by Apache Kafka 3.9's message classes, and the other way.

One Java process for all messages. In JSON the fields have Apache Kafka's names.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kavka.compat_tests.raw.codec.schemas import Values
from support import java_compiler
from support.paths import JAVA
from support.wire_java import Kind

SOURCE = JAVA / "wire" / "AsJson.java"
PROJECT = "kafka39"
"""Its jars have the library that the converters need."""

_case = struct.Struct(">bbhhi")
_TO_JSON, _FROM_JSON = range(2)


class Message(NamedTuple):
    """A frame with its header but without its length; or the JSON of a body."""

    kind: Kind
    key: int
    version: int
    content: Any


def read(messages: Sequence[Message]) -> list[Any]:
    """The JSON of these frames' bodies."""
    given = [(message, bytes(message.content)) for message in messages]
    return [json.loads(found) for found in _convert(_TO_JSON, given)]


def written(messages: Sequence[Message]) -> list[bytes]:
    """The bodies of which this is the JSON, as Java writes them."""
    return _convert(
        _FROM_JSON, [(message, json.dumps(message.content).encode()) for message in messages]
    )


def _convert(direction: int, given: Sequence[tuple[Message, bytes]]) -> list[bytes]:
    cases = [
        _case.pack(direction, message.kind, message.key, message.version, len(content)) + content
        for message, content in given
    ]
    command = java_compiler.command_line(SOURCE, PROJECT, built_with=PROJECT)
    answers = java_compiler.answers(command, cases)
    refused = [
        f"{message}: {found!r}"
        for (message, _), (bad, found) in zip(given, answers, strict=True)
        if bad
    ]
    assert not refused, f"{len(refused)} of {len(given)}:\n" + "\n".join(refused[:5])
    return [found for _, found in answers]


def as_json(struct_: Any, version: int, found: Values) -> dict[str, Any]:
    """These values as Java's converters write them: without tagged fields that have the default."""
    return {
        _json_name(field): _value(field, version, found[field.name])
        for field in struct_._fields
        if field.name in found
        and not (field.tagged_field_q(version) and found[field.name] == field.default)
    }


def _json_name(field: Any) -> str:
    name: str = field._json["name"]
    return name[0].lower() + name[1:]


def _value(field: Any, version: int, value: Any) -> Any:
    if field.is_array() or field.is_struct_array():
        return [_value(field.array_of, version, item) for item in value]
    if field.is_struct():
        return as_json(field, version, value)
    if field.type_str == "uuid":
        number = value or UUID(int=0)
        return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")
    return value
