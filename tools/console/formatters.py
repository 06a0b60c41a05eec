"""How the console consumer prints records: Apache Kafka's formatters, by the names of their
classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Protocol

from kavka.tools.admin.errors import Misused
from kavka.tools.console.coordinator_records import group_json, offsets_json, transaction_json
from kavka.tools.console.java_types import deserializer

CONSUMER: Final = "org.apache.kafka.tools.consumer."
DEFAULT: Final = f"{CONSUMER}DefaultMessageFormatter"
BYTE_ARRAYS: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}
PRINTED: Final = (
    *("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value"),
)
"""What print.NAME=true prints, in this order."""

NOT_PRESENT: Final = b"NOT_PRESENT"
"""Of what the console consumer does not look at: epochs, and deliveries of share groups."""

Convert = Callable[[bytes], str] | None


class Formatter(Protocol):
    """Prints records."""

    def write(self, record: Any, out: BinaryIO) -> None:
        """Print one. Failed if it can't be read as it should."""
        ...


class DefaultFormatter:
    """Parts of records, with separators between them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._printed = [
            part
            for part in PRINTED
            if _is_true(properties.get(f"print.{part}", "true" if part == "value" else ""))
        ]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line = properties.get("line.separator", "\n").encode()
        self._header_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key = _deserializer(properties, "key.deserializer")
        self._value = _deserializer(properties, "value.deserializer")
        self._headers = _deserializer(properties, "headers.deserializer")
        self._parts: Mapping[str, Callable[[Any], bytes]] = {
            "timestamp": _timestamp,
            "partition": lambda record: b"Partition:%d" % record.partition,
            "offset": lambda record: b"Offset:%d" % record.offset,
            "delivery": lambda _: b"Delivery:" + NOT_PRESENT,
            "epoch": lambda _: b"Epoch:" + NOT_PRESENT,
            "headers": self._all_headers,
            "key": lambda record: self._read(self._key, record.key),
            "value": lambda record: self._read(self._value, record.value),
        }

    def write(self, record: Any, out: BinaryIO) -> None:
        for part in self._printed:
            out.write(self._parts[part](record))
            out.write(self._line if part == self._printed[-1] else self._separator)

    def _all_headers(self, record: Any) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._header_separator.join(
            name.encode() + b":" + self._read(self._headers, value)
            for name, value in record.headers
        )

    def _read(self, convert: Convert, data: bytes | None) -> bytes:
        """Null is read as its literal, by deserializers too: so Apache Kafka does."""
        content = self._null if data is None else bytes(data)
        return content if convert is None else convert(content).encode(errors="replace")


class LoggingFormatter(DefaultFormatter):
    """The same, and a line on standard error."""

    def write(self, record: Any, out: BinaryIO) -> None:
        super().write(record, out)
        time = f"{_timestamp(record).decode()}, " if record.timestamp_type in TYPES else ""
        key = "null " if record.key is None else f"{_text(record.key)}, "
        value = "null" if record.value is None else _text(record.value)
        print(f"{time}key:{key}value:{value}", file=sys.stderr)


class NoFormatter:
    """Prints nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: Any, out: BinaryIO) -> None:
        pass


class JsonFormatter:
    """What coordinators write, as JSON without a line's end."""

    json: Callable[[Any], str | None]

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def write(self, record: Any, out: BinaryIO) -> None:
        text = type(self).json(record)
        if text is not None:
            out.write(text.encode())


class OffsetsFormatter(JsonFormatter):
    """Committed offsets."""

    json = staticmethod(offsets_json)


class GroupsFormatter(JsonFormatter):
    """Classic groups."""

    json = staticmethod(group_json)


class TransactionsFormatter(JsonFormatter):
    """Transactions."""

    json = staticmethod(transaction_json)


FORMATTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoFormatter,
    "OffsetsMessageFormatter": OffsetsFormatter,
    "GroupMetadataMessageFormatter": GroupsFormatter,
    "TransactionLogMessageFormatter": TransactionsFormatter,
}


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """That of a class. Misused if there is none of the name."""
    made = FORMATTERS.get(name.removeprefix(CONSUMER))
    if made is None or not name.startswith(CONSUMER):
        raise Misused(
            f"{name}: Java's classes can't be run here, only {CONSUMER}{', '.join(FORMATTERS)}"
        )
    return made(properties)


def _deserializer(properties: Mapping[str, str], name: str) -> Convert:
    found = properties.get(name)
    if found is None or found == BYTE_ARRAYS:
        return None
    convert = deserializer(found)
    if convert is None:
        print(f"Unable to instantiate a deserializer from {found}", file=sys.stderr)
    return convert


def _timestamp(record: Any) -> bytes:
    kind = TYPES.get(record.timestamp_type)
    return b"NO_TIMESTAMP" if kind is None else f"{kind}:{record.timestamp}".encode()


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _text(data: bytes) -> str:
    return bytes(data).decode(errors="replace")
