"""Random messages, written by the tables that `kavka dump-log` reads them by.

Apache Kafka's generated classes judge both: what they can't read, or read otherwise, shows.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kavka.compat_tests.raw.codec.batches import uvarint
from kavka.tools.dump_log.messages import Schema, versions

TEXTS = ("", "orders", 'ä "\\\n\x01\x7f\u2028', "😀" * 3, "x" * 200)
DOUBLES = (0.0, -0.0, 0.5, 1e-4, 1e7, 12345678.5, 10485760.0, -1e22, math.inf, -math.inf, math.nan)
PLAIN = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q"}
ELEMENTS_MAX = 3
UNKNOWN_TAG = 50

Own = Mapping[str, Callable[[], bytes]]
"""What makes the bytes of fields, by their names."""


def random_message(
    chance: random.Random, schema: Schema, version: int, own: Own | None = None
) -> bytes:
    """A whole message. One of an unknown version is written as the nearest known one."""
    known = versions(schema)
    version = max(known[0], min(known[-1], version))
    return _Writer(chance, schema, version, own or {}).struct(schema["fields"])


def is_in(version: int, text: str) -> bool:
    """Whether a version is one of "3", "0-2", "1+" or "none"."""
    return text != "none" and version in versions({"validVersions": text})


class _Writer:
    def __init__(self, chance: random.Random, schema: Schema, version: int, own: Own) -> None:
        self._chance = chance
        self._version = version
        self._own = own
        self._is_flexible = is_in(version, schema["flexibleVersions"])

    def struct(self, fields: list[Schema]) -> bytes:
        there = [field for field in fields if is_in(self._version, field["versions"])]
        data = b"".join(
            self._value(field, field["type"]) for field in there if field.get("tag") is None
        )
        if not self._is_flexible:
            return data
        tagged = {
            field["tag"]: self._value(field, field["type"])
            for field in there
            if field.get("tag") is not None and self._chance.random() < 0.6
        }
        if self._chance.random() < 0.2:
            tagged[UNKNOWN_TAG] = b"unknown"
        return (
            data
            + uvarint(len(tagged))
            + b"".join(
                uvarint(tag) + uvarint(len(value)) + value for tag, value in sorted(tagged.items())
            )
        )

    def _value(self, field: Schema, kind: str) -> bytes:
        is_nullable = is_in(self._version, field.get("nullableVersions", "none"))
        is_null = is_nullable and self._chance.random() < 0.3
        if kind == "bool":
            return self._chance.choice([b"\0", b"\1"])
        if kind in PLAIN:
            return self._number(PLAIN[kind])
        if kind == "float64":
            return struct.pack(">d", self._chance.choice(DOUBLES))
        if kind == "uuid":
            return self._chance.choice([bytes(16), self._chance.randbytes(16)])
        if kind in ("string", "bytes"):
            data = self._data(field["name"], kind)
            return self._sized(">h" if kind == "string" else ">i", None if is_null else data)
        if kind.startswith("[]"):
            return self._array(field, kind.removeprefix("[]"), is_null=is_null)
        content = self.struct(field["fields"])
        if not is_nullable:
            return content
        plain, none = (uvarint(1), uvarint(0)) if "tag" in field else (b"\1", b"\xff")
        return none if is_null else plain + content

    def _array(self, field: Schema, kind: str, *, is_null: bool) -> bytes:
        count = self._chance.randrange(ELEMENTS_MAX)
        element: dict[str, Any] = {key: field[key] for key in field if key != "nullableVersions"}
        content = b"".join(self._value(element, kind) for _ in range(count))
        return self._length(">i", -1) if is_null else self._length(">i", count) + content

    def _number(self, form: str) -> bytes:
        size = struct.calcsize(form)
        return self._chance.choice(
            [bytes(size), b"\xff" * size, bytes(size - 1) + b"\7", self._chance.randbytes(size)]
        )

    def _data(self, name: str, kind: str) -> bytes:
        if name in self._own:
            return self._own[name]()
        if kind == "string":
            return self._chance.choice(TEXTS).encode()
        return self._chance.randbytes(self._chance.randrange(9))

    def _sized(self, form: str, data: bytes | None) -> bytes:
        return self._length(form, -1) if data is None else self._length(form, len(data)) + data

    def _length(self, form: str, size: int) -> bytes:
        return uvarint(size + 1) if self._is_flexible else struct.pack(form, size)
