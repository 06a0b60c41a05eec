"""What the consumers of a group say to each other, as far as a broker looks into it. Pure.

It is the consumers' business, and opaque in the protocol; but offsets of topics that somebody
reads neither expire nor are deleted, so the topics are read from it (ConsumerProtocolSubscription
of Apache Kafka; the part of version 0 is in front in all versions).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""

_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_BYTES_LENGTH: Final = Struct(">i")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics that a consumer's metadata names; None if it can't be read."""
    try:
        _, count = _HEAD.unpack_from(metadata)
        if count < 0:
            return None
        topics, at = [], _HEAD.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            end = at + 2 + length
            if length < 0 or end > len(metadata):
                return None
            topics.append(metadata[at + 2 : end].decode())
            at = end
        (user_data_bytes,) = _BYTES_LENGTH.unpack_from(metadata, at)
        if at + 4 + user_data_bytes > len(metadata):
            return None
    except (StructError, UnicodeDecodeError):
        return None
    return topics
