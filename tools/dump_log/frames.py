"""Records with a frame: its version, then type and version of a message, then the message.

KRaft's records have it, and those of tiered storage. What can't be read is reported in the words of
Apache Kafka's AbstractApiMessageSerde.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kavka.tools.dump_log.java_values import wrap_short
from kavka.tools.dump_log.messages import Malformed, Schema, family, read_message, read_varint

FRAME_VERSION: Final = 1
SHORT_MAX: Final = 2**15 - 1


class Framed(NamedTuple):
    """What was in a frame."""

    schema: Schema
    version: int
    content: dict[str, Any]


def read_frame(table: str, value: bytes) -> Framed:
    """A record of one of the types of a table. Malformed."""
    frame_version, at = _short(value, 0, "frame version")
    if frame_version != FRAME_VERSION:
        raise Malformed(_unknown_frame(frame_version))
    kind, at = _short(value, at, "type")
    version, at = _short(value, at, "version")
    schema = next(
        (candidate for candidate in family(table).values() if candidate["apiKey"] == kind), None
    )
    if schema is None:
        raise Malformed(
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {kind}"
        )
    try:
        content, size = read_message(schema, value[at:], version)
    except Malformed:
        raise Malformed(f"Failed to deserialize record with type {kind}") from None
    if left := len(value) - at - size:
        raise Malformed(f"Found {left} byte(s) of garbage after {kind}")
    return Framed(schema, version, content)


def _unknown_frame(version: int) -> str:
    if version == 0:
        return (
            "Could not deserialize metadata record with frame version 0. Note that upgrades from "
            "the preview release of KRaft in 2.8 to newer versions are not supported."
        )
    return (
        f"Could not deserialize metadata record due to unknown frame version {version}"
        f"(only frame version {FRAME_VERSION} is supported)"
    )


def _short(value: bytes, at: int, name: str) -> tuple[int, int]:
    """A number of 16 bits, and where it ends. One that is negative in 32 bits is cut off."""
    try:
        number, end = read_varint(value, at)
    except Malformed:
        raise Malformed(f"Error while reading {name}") from None
    if number > SHORT_MAX:
        raise Malformed(f"Value for {name} was too large.")
    return wrap_short(number), end
