"""What the consumers of a group say to each other, as far as a broker looks into it. Pure.

It is the consumers' business, and opaque in the protocol; but offsets of topics that somebody
reads neither expire nor are deleted, so the topics are read from it (ConsumerProtocolSubscription
of Apache Kafka; the part of version 0 is in front in all versions).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final

from kavka.wire.steps import PauseCounter, Slices

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""

_VERSION_BYTES: Final = 2
_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_BYTES_LENGTH: Final = Struct(">i")


def topics_of_all(subscriptions: Iterable[bytes]) -> Slices[frozenset[str] | None]:
    """The topics that some consumers' metadata names together; None if any can't be read.

    Consumers of one group mostly name the same ones, in front of what else they say.
    """
    found: set[str] = set()
    before, pauses = b"", PauseCounter()
    for metadata in subscriptions:
        if pauses.is_due(2):
            yield
        end = _VERSION_BYTES + len(before)
        if before and metadata.startswith(before, _VERSION_BYTES) and _is_whole(metadata, end):
            continue
        read = _read(metadata)
        if read is None:
            return None
        topics, end = read
        if pauses.is_due(3 * len(topics)):
            yield
        found.update(topics)
        before = metadata[_VERSION_BYTES:end]
    return frozenset(found)


def _read(metadata: bytes) -> tuple[list[str], int] | None:
    """The topics that a consumer's metadata names, and where they end."""
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
    except (StructError, UnicodeDecodeError):
        return None
    return (topics, at) if _is_whole(metadata, at) else None


def _is_whole(metadata: bytes, end: int) -> bool:
    """Whether the user data, which come behind the topics, are there."""
    try:
        user_data_bytes: int = _BYTES_LENGTH.unpack_from(metadata, end)[0]
    except StructError:
        return False
    return end + _BYTES_LENGTH.size + user_data_bytes <= len(metadata)
