"""What Java's deserializers make of bytes, and how they print it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kavka.tools.admin.errors import Failed
from kavka.tools.java_numbers import double_text, float_text

_PACKAGE: Final = "org.apache.kafka.common.serialization."


def deserializer(name: str) -> Callable[[bytes], str] | None:
    """That of a Java class; None if it is not known here."""
    return _KNOWN.get(name.removeprefix(_PACKAGE))


def _number(
    form: str, type_name: str, text: Callable[[float], str] = str
) -> Callable[[bytes], str]:
    size = struct.calcsize(form)

    def read(data: bytes) -> str:
        if len(data) != size:
            raise Failed(f"Size of data received by {type_name}Deserializer is not {size}")
        return text(struct.unpack(form, data)[0])

    return read


def _boolean(data: bytes) -> str:
    if data not in (b"\0", b"\1"):
        raise Failed("Unexpected byte received by BooleanDeserializer, or more than one")
    return "true" if data == b"\1" else "false"


def _uuid(data: bytes) -> str:
    text = data.decode(errors="replace")
    try:
        return str(UUID(text))
    except ValueError:
        raise Failed(f"Error parsing data into UUID: {text!r}") from None


def _bytes(data: bytes) -> str:
    """As org.apache.kafka.common.utils.Bytes: what is no letter or sign is \\xXX."""
    shown = (chr(byte) if 32 <= byte <= 126 and byte != 92 else f"\\x{byte:02X}" for byte in data)
    return "".join(shown)


def _buffer(data: bytes) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(data)} cap={len(data)}]"


_KNOWN: Final[Mapping[str, Callable[[bytes], str]]] = {
    "StringDeserializer": lambda data: data.decode(errors="replace"),
    "ShortDeserializer": _number(">h", "Short"),
    "IntegerDeserializer": _number(">i", "Integer"),
    "LongDeserializer": _number(">q", "Long"),
    "FloatDeserializer": _number(">f", "Float", float_text),
    "DoubleDeserializer": _number(">d", "Double", double_text),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "BytesDeserializer": _bytes,
    "ByteBufferDeserializer": _buffer,
}
