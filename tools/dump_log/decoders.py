"""What is in keys and values of records: text, numbers, or records of Apache Kafka's own topics."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.options import Given
from kavka.tools.dump_log import remote
from kavka.tools.dump_log.frames import read_frame
from kavka.tools.dump_log.java_values import json_text
from kavka.tools.dump_log.messages import (
    Malformed,
    Schema,
    family,
    read_message,
    versions,
)
from kavka.tools.dump_log.records import Part, Record
from kavka.tools.java_text import text

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
    """The one that was asked for. Failed if Kavka has no such class."""
    for option, table in ((OFFSETS, "group"), (TRANSACTIONS, "transaction")):
        if given.has(option):
            return _coordinator(table)
    if given.has(METADATA):
        return _metadata
    if given.has(REMOTE):
        return _remote
    if given.has(SHARES):
        return _coordinator("share")
    return _plain(_class(given.text(KEY_CLASS)), _class(given.text(VALUE_CLASS)))


# --- of any topic


def _class(name: str | None) -> Callable[[bytes], str]:
    """None: none was named, which is not an empty name."""
    known: Mapping[str, Callable[[bytes], str]] = {
        STRING: text,
        f"{API}LongDecoder": lambda data: _number(">q", data),
        f"{API}IntegerDecoder": lambda data: _number(">i", data),
        f"{API}DefaultDecoder": bytes.hex,
    }
    if name is None:
        return text
    if name not in known:
        raise Failed(
            f"Failed to load decoder class {name}: Kavka runs no Java and knows "
            f"{', '.join(class_name.removeprefix(API) for class_name in known)} of "
            f"{API.rstrip('.')}"
        )
    return known[name]


def _number(form: str, data: bytes) -> str:
    try:
        (number,) = struct.unpack_from(form, data)
    except struct.error:
        size = struct.calcsize(form)
        raise Failed(f"a number of {size} bytes is needed, not {len(data)} bytes") from None
    return str(number)


def _plain(key: Callable[[bytes], str], value: Callable[[bytes], str]) -> Decoder:
    def decode(record: Record) -> Decoded:
        if record.damage is not None:
            raise record.damage
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
        key, damage = record.key, record.damage
        if damage is not None and damage.part is Part.KEY_SIZE:
            raise damage
        if key is None and (damage is None or damage.part is not Part.KEY):
            raise Failed(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            if damage is not None:
                raise Malformed(damage.words)
            return _decode(messages, key or b"", record.value)
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
        member[field] = read_message(schema, member[field][2:], version)[0]
    except Malformed:
        return


# --- of KRaft's log


def _value(record: Record) -> bytes | None:
    """Without a look at the key. Malformed."""
    damage = record.damage
    if damage is not None:
        raise Malformed(damage.words if damage.part is Part.VALUE else "null")
    return record.value


def _metadata(record: Record) -> Decoded:
    try:
        return Decoded(None, _metadata_record(_value(record) or b""))
    except Malformed as malformed:
        return Decoded(None, f"Error at {record.offset}, skipping. {malformed}")


def _metadata_record(value: bytes) -> str:
    schema, version, content = read_frame("metadata", value)
    name = "".join(
        f"_{letter}" if letter.isupper() else letter.upper() for letter in schema["name"]
    )
    return json_text({"type": name.lstrip("_"), "version": version, "data": content})


# --- of tiered storage


def _remote(record: Record) -> Decoded:
    try:
        return Decoded(None, remote.in_words(_value(record)))
    except Malformed as malformed:
        return Decoded(None, f"Error at offset {record.offset}, skipping. {malformed}")
