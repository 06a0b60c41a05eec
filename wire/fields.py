"""Reads and writes record values in Apache Kafka's flexible encoding (KIP-482).

Lengths are unsigned varints, one more than the length, 0 for null. Keys are not flexible: their
strings have a length of two bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

T = TypeVar("T")

NO_TAGS: Final = b"\0"

_int8: Final = struct.Struct(">b")
_int16: Final = struct.Struct(">h")
_int32: Final = struct.Struct(">i")
_int64: Final = struct.Struct(">q")
_VARINT_BYTES_MAX: Final = 5
_ARRAY_OF_ONE: Final = b"\2"
_ONE_BYTE: Final = [bytes([value]) for value in range(0x80)]


class Malformed(ValueError):
    """The bytes do not follow the schema."""


# -- writing -----------------------------------------------------------------------------------


def key(version: int, *strings: str) -> bytes:
    """A record's key: its version (the kind of record) and its strings."""
    out = bytearray(_int16.pack(version))
    for string in strings:
        encoded = string.encode()
        out += _int16.pack(len(encoded))
        out += encoded
    return bytes(out)


def int8(value: int) -> bytes:
    return _int8.pack(value)


def int16(value: int) -> bytes:
    return _int16.pack(value)


def int32(value: int) -> bytes:
    return _int32.pack(value)


def int64(value: int) -> bytes:
    return _int64.pack(value)


def uvarint(value: int) -> bytes:
    if value <= 0x7F:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None) -> bytes:
    return data(None if value is None else value.encode())


def data(value: bytes | None) -> bytes:
    return NO_TAGS if value is None else uvarint(len(value) + 1) + value


def array(values: Sequence[T], write: Callable[[T], bytes]) -> bytes:
    return uvarint(len(values) + 1) + b"".join(map(write, values))


def int32s(values: Sequence[int]) -> bytes:
    """An array of int32 in one call; mostly it has one element."""
    count = len(values)
    if count == 1:
        return _ARRAY_OF_ONE + _int32.pack(values[0])
    return uvarint(count + 1) + struct.pack(f">{count}i", *values)


def tags(fields: Mapping[int, bytes]) -> bytes:
    """A tagged section; `fields` in the order of their tags."""
    out = uvarint(len(fields))
    for tag, value in fields.items():
        out += uvarint(tag) + uvarint(len(value)) + value
    return out


# -- reading -----------------------------------------------------------------------------------


class Reader:
    """Reads fields one after another; Malformed where the bytes end too early."""

    __slots__ = ("_bytes", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._bytes = data
        self._position = position

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._bytes) - self._position

    def _fixed(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._bytes, self._position)
        except struct.error as failure:
            raise Malformed(str(failure)) from None
        self._position += form.size
        return int(value)

    def int8(self) -> int:
        return self._fixed(_int8)

    def int16(self) -> int:
        return self._fixed(_int16)

    def int32(self) -> int:
        return self._fixed(_int32)

    def int64(self) -> int:
        return self._fixed(_int64)

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            if self._position >= len(self._bytes):
                break
            byte = self._bytes[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed("an unterminated varint")

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._bytes):
            raise Malformed(f"{length} bytes, but {self.left} are left")
        taken = self._bytes[self._position : end]
        self._position = end
        return taken

    def key_string(self) -> str:
        """A string with a two-byte length, as in keys."""
        return self._text(self.take(self.int16()))

    def nullable_string(self) -> str | None:
        encoded = self.nullable_data()
        return None if encoded is None else self._text(encoded)

    def string(self) -> str:
        return self._text(self.data())

    def nullable_data(self) -> bytes | None:
        length = self.uvarint()
        return self.take(length - 1) if length else None

    def data(self) -> bytes:
        return self.take(self.uvarint() - 1)

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def array(self, read: Callable[[], T]) -> list[T]:
        """An array; null reads as empty. An element has at least one byte."""
        count = self.uvarint() - 1
        if count > self.left:
            raise Malformed(f"{count} elements, but {self.left} bytes are left")
        return [read() for _ in range(count)]

    def int32s(self) -> Sequence[int]:
        """An array of int32 in one call; null reads as empty."""
        count = self.uvarint() - 1
        if count <= 0:
            return ()
        return struct.unpack(f">{count}i", self.take(4 * count))

    def tags(self) -> dict[int, Reader]:
        """The fields of a tagged section, whether known or not."""
        found: dict[int, Reader] = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = Reader(self.take(self.uvarint()))
        return found

    @staticmethod
    def _text(encoded: bytes) -> str:
        try:
            return encoded.decode()
        except UnicodeDecodeError as failure:
            raise Malformed(str(failure)) from None
