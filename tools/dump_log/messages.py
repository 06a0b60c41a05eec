"""Reads messages in the way of Apache Kafka's generated classes, from the tables in `schemas/`.

The tables have the form of Apache Kafka's own, without descriptive text. What is malformed is
reported in the words of those classes, since its tools print them.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from kavka.tools.dump_log.java_values import wrap_int
from kavka.tools.java_text import text

SCHEMAS: Final = Path(__file__).with_name("schemas")
STRING_BYTES_MAX: Final = 0x7FFF
VARINT_SHIFT_MAX: Final = 28

Schema = Mapping[str, Any]


class Malformed(Exception):
    """What can't be read; the message is that of Apache Kafka, "null" where it has none."""


@cache
def family(name: str) -> Mapping[str, Schema]:
    """The messages of one table by name."""
    table: list[Schema] = json.loads((SCHEMAS / f"{name}.json").read_bytes())
    return {schema["name"]: schema for schema in table}


def versions(schema: Schema) -> range:
    """Those that can be read."""
    return _range(schema["validVersions"])


def read_message(schema: Schema, data: bytes, version: int) -> tuple[dict[str, Any], int]:
    """The fields of a message in their order as JSON has them, and how many bytes it takes. One of
    an unknown version is read as the nearest known one, unless there is a message within it.
    Malformed."""
    reader = _Reader(data, schema, version)
    return reader.struct(schema["fields"]), reader.position


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint in 32 bits, which may be negative as in Java, and its end. Malformed."""
    value = 0
    for shift in range(0, VARINT_SHIFT_MAX + 1, 7):
        if at >= len(data):
            raise Malformed("null")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return wrap_int(value), at
    raise Malformed(
        "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
        f"{wrap_int(value) & 0xFFFFFFFF:x}"
    )


@cache
def _range(text: str) -> range:
    """Of "3", "0-2", "1+" and "none"."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), STRING_BYTES_MAX)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class _Reader:
    def __init__(self, data: bytes, schema: Schema, version: int) -> None:
        known = versions(schema)
        self.position = 0
        self._data = data
        self._unknown_tags = 0  # with one in it, a message is not its default
        self._given_version = version
        self._version = max(known[0], min(known[-1], version))
        self._is_flexible = self._version in _range(schema["flexibleVersions"])
        self._plain: Mapping[str, Callable[[], Any]] = {
            "bool": lambda: self._number(">b") != 0,
            "int8": lambda: self._number(">b"),
            "int16": lambda: self._number(">h"),
            "uint16": lambda: self._number(">H"),
            "int32": lambda: self._number(">i"),
            "uint32": lambda: self._number(">I"),
            "int64": lambda: self._number(">q"),
            "float64": lambda: self._number(">d"),
            "uuid": lambda: base64.urlsafe_b64encode(self._uuid()).decode().rstrip("="),
        }

    def struct(self, fields: list[Schema]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        tagged: dict[int, Schema] = {}
        for field in fields:
            if "tag" in field:
                tagged[field["tag"]] = field
                continue
            if self._version not in _range(field["versions"]):
                continue
            found[field["name"]] = self._value(field, field["type"], field["name"])
        if self._is_flexible:
            self._tagged_fields(tagged, found)
        # tagged ones come last, but JSON has all in the order of the table
        return {field["name"]: found[field["name"]] for field in fields if field["name"] in found}

    def _tagged_fields(self, tagged: Mapping[int, Schema], found: dict[str, Any]) -> None:
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            field = tagged.get(tag)
            if field is None:
                self._take(size)
                self._unknown_tags += 1
                continue
            if self._version not in _range(field["versions"]):
                raise Malformed(f"Tag {tag} is not valid for version {self._given_version}")
            before = self._unknown_tags
            value = self._value(field, field["type"], field["name"])
            if value != field["default"] or self._unknown_tags > before:
                found[field["name"]] = value

    def _value(self, field: Schema, kind: str, name: str) -> Any:
        is_nullable = self._version in _range(field.get("nullableVersions", "none"))
        if kind in self._plain:
            return self._plain[kind]()
        if kind == "string":
            return self._string(name, is_nullable)
        if kind == "bytes":
            size = self._length(">i", name, is_nullable)
            return None if size is None else self._take(size)
        if kind.startswith("[]"):
            return self._array(field, kind.removeprefix("[]"), name, is_nullable)
        if is_nullable and self._is_null("tag" in field):
            return None
        if self._given_version > self._version:
            raise Malformed(f"Can't read version {self._given_version} of {kind}")
        return self.struct(field["fields"])

    def _is_null(self, is_tagged: bool) -> bool:
        """What stands before a message within a message, if it may be null."""
        return self._varint() <= 0 if is_tagged else self._number(">b") < 0

    def _array(self, field: Schema, kind: str, name: str, is_nullable: bool) -> Any:
        count = self._length(">i", name, is_nullable)
        if count is None:
            return None
        left = len(self._data) - self.position
        if count > left:
            raise Malformed(
                f"Tried to allocate a collection of size {count}, but there are only {left} bytes "
                "remaining."
            )
        element = {key: field[key] for key in field if key != "nullableVersions"}
        return [self._value(element, kind, f"{name} element") for _ in range(count)]

    def _string(self, name: str, is_nullable: bool) -> str | None:
        size = self._length(">h", name, is_nullable)
        if size is None:
            return None
        if size > STRING_BYTES_MAX:
            raise Malformed(f"string field {name} had invalid length {size}")
        return text(self._take(size))

    def _length(self, plain: str, name: str, is_nullable: bool) -> int | None:
        """None for null."""
        size = self._varint() - 1 if self._is_flexible else int(self._number(plain))
        if size >= 0:
            return size
        if is_nullable:
            return None
        raise Malformed(f"non-nullable field {name} was serialized as null")

    def _number(self, form: str) -> Any:
        size = struct.calcsize(form)
        if self.position + size > len(self._data):
            raise Malformed("null")
        (value,) = struct.unpack_from(form, self._data, self.position)
        self.position += size
        return value

    def _uuid(self) -> bytes:
        self._number(">q")
        self._number(">q")
        return self._data[self.position - 16 : self.position]

    def _varint(self) -> int:
        value, self.position = read_varint(self._data, self.position)
        return value

    def _take(self, size: int) -> bytes:
        left = len(self._data) - self.position
        if size > left:
            raise Malformed(
                f"Error reading byte array of {size} byte(s): only {left} byte(s) available"
            )
        if size < 0:
            raise Malformed(str(size))
        self.position += size
        return self._data[self.position - size : self.position]
