"""What is in keys and values of records: text, numbers, or records of Apache Kafka's own topics."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.options import Given
from kavka.tools.dump_log.java_values import json_text, text
from kavka.tools.dump_log.messages import (
    Malformed,
    Schema,
    family,
    read_message,
    versions,
)
from kavka.tools.dump_log.records import Record

API: Final = "org.apache.kafka.tools.api."
STRING: Final = f"{API}StringDecoder"
KEY_CLASS: Final = "key-decoder-class"
VALUE_CLASS: Final = "value-decoder-class"
OFFSETS: Final = "offsets-decoder"
TRANSACTIONS: Final = "transaction-log-decoder"
METADATA: Final = "cluster-metadata-decoder"
REMOTE: Final = "remote-log-metadata-decoder"
SHARES: Final = "share-group-state-decoder"

DECODERS: Final = (OFFSETS, TRANSACTIONS, METADATA, REMOTE, SHARES, VALUE_CLASS, KEY_CLASS)
"""Each of them prints records."""

CONSUMER: Final = "consumer"
DELETED: Final = "<DELETE>"


class Decoded(NamedTuple):
    """Key and value in words; None where nothing is to be printed."""

    key: str | None
    value: str | None


Decoder = Callable[[Record], Decoded]


def decoder(given: Given) -> Decoder:
    """The one that was asked for. Failed if Kavka has no such."""
    for option, table in ((OFFSETS, "group"), (TRANSACTIONS, "transaction")):
        if given.has(option):
            return _coordinator(table)
    if given.has(METADATA):
        return _metadata
    if given.has(REMOTE):
        raise Failed(
            "Kavka keeps no remote log metadata: --remote-log-metadata-decoder is for the topic "
            "of Apache Kafka's tiered storage"
        )
    if given.has(SHARES):
        return _coordinator("share")
    return _plain(
        _class(given.text(KEY_CLASS) or STRING), _class(given.text(VALUE_CLASS) or STRING)
    )


# --- of any topic


def _class(name: str) -> Callable[[bytes], str]:
    known: Mapping[str, Callable[[bytes], str]] = {
        STRING: text,
        f"{API}LongDecoder": lambda data: _number(">q", data),
        f"{API}IntegerDecoder": lambda data: _number(">i", data),
        f"{API}DefaultDecoder": bytes.hex,
    }
    if name not in known:
        raise Failed(
            f"Failed to load decoder class {name}: Kavka runs no Java and knows "
            f"{', '.join(one.removeprefix(API) for one in known)} of {API.rstrip('.')}"
        )
    return known[name]


def _number(form: str, data: bytes) -> str:
    try:
        (number,) = struct.unpack_from(form, data)
    except struct.error:
        wanted = struct.calcsize(form)
        raise Failed(f"a number of {wanted} bytes is needed, not {len(data)} bytes") from None
    return str(number)


def _plain(key: Callable[[bytes], str], value: Callable[[bytes], str]) -> Decoder:
    def decode(record: Record) -> Decoded:
        return Decoded(
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return decode


# --- of the coordinators' topics


class _UnknownType(Exception):
    """A record of a type that Apache Kafka 4.3.1 does not know."""


def _coordinator(table: str) -> Decoder:
    messages = {
        (schema["apiKey"], name.endswith("Key")): schema for name, schema in family(table).items()
    }

    def decode(record: Record) -> Decoded:
        if record.key is None:
            raise Failed(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            return _decode(messages, record.key, record.value)
        except _UnknownType as unknown:
            return Decoded(
                f"Unknown record type {unknown} at offset {record.offset}, skipping.", None
            )
        except Malformed as malformed:
            return Decoded(f"Error at offset {record.offset}, skipping. {malformed}", None)

    return decode


def _decode(
    messages: Mapping[tuple[int, bool], Schema], key: bytes, value: bytes | None
) -> Decoded:
    kind = _version(key, "key")
    if (kind, True) not in messages:
        raise _UnknownType(kind)
    key_content = _content(messages[kind, True], key, kind, "key")
    shown_key = json_text({"type": str(kind), "data": key_content})
    if value is None:
        return Decoded(shown_key, DELETED)
    schema, version = messages[kind, False], _version(value, "value")
    if version not in versions(schema):
        raise Malformed(f"Found an unknown record version {version} for {kind} type")
    content = _content(schema, value, version, "value")
    if schema["name"] == "GroupMetadataValue" and content["protocolType"] == CONSUMER:
        for member in content["members"]:
            _open(member, "subscription", "ConsumerProtocolSubscription")
            _open(member, "assignment", "ConsumerProtocolAssignment")
    return Decoded(shown_key, json_text({"version": str(version), "data": content}))


def _version(data: bytes, name: str) -> int:
    if len(data) < 2:
        raise Malformed(f"Could not read version from {name}'s buffer.")
    return int.from_bytes(data[:2], "big", signed=True)


def _content(schema: Schema, data: bytes, version: int, name: str) -> dict[str, Any]:
    """Keys have one version, and their type in its place."""
    try:
        return read_message(schema, data[2:], 0 if name == "key" else version)[0]
    except Malformed as malformed:
        raise Malformed(
            f"Could not read record with version {version} from {name}'s buffer due to: "
            f"{malformed}."
        ) from malformed


def _open(member: dict[str, Any], field: str, name: str) -> None:
    """Bytes that a consumer wrote, if they are of its protocol; otherwise they stay bytes."""
    schema = family("consumer")[name]
    try:
        version = _version(member[field], field)
        if version in versions(schema):
            member[field] = read_message(schema, member[field][2:], version)[0]
    except Malformed:
        return


# --- of KRaft's log


def _metadata(record: Record) -> Decoded:
    try:
        return Decoded(None, _metadata_record(record.value or b""))
    except Malformed as malformed:
        return Decoded(None, f"Error at {record.offset}, skipping. {malformed}")


def _metadata_record(value: bytes) -> str:
    numbers, position = [], 0
    for name in ("frame version", "type", "version"):
        number, size = _unsigned(value[position:], name)
        numbers.append(number)
        position += size
        if name == "frame version" and number != 1:
            raise Malformed(_frame(number))
    _, kind, version = numbers
    found = [schema for schema in family("metadata").values() if schema["apiKey"] == kind]
    if not found:
        raise Malformed(
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {kind}"
        )
    (schema,) = found
    try:
        if version not in versions(schema):
            raise Malformed("")
        content, size = read_message(schema, value[position:], version)
    except Malformed:
        raise Malformed(f"Failed to deserialize record with type {kind}") from None
    if left := len(value) - position - size:
        raise Malformed(f"Found {left} byte(s) of garbage after {kind}")
    name = "".join(f"_{one}" if one.isupper() else one.upper() for one in schema["name"])
    return json_text({"type": name.lstrip("_"), "version": version, "data": content})


def _frame(version: int) -> str:
    if version == 0:
        return (
            "Could not deserialize metadata record with frame version 0. Note that upgrades from "
            "the preview release of KRaft in 2.8 to newer versions are not supported."
        )
    return (
        f"Could not deserialize metadata record due to unknown frame version {version}"
        "(only frame version 1 is supported)"
    )


def _unsigned(data: bytes, name: str) -> tuple[int, int]:
    """An unsigned varint that fits into 16 bits, and its size."""
    value = 0
    for at, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            if value > 0x7FFF:
                raise Malformed(f"Value for {name} was too large.")
            return value, at + 1
    raise Malformed(f"Error while reading {name}")
