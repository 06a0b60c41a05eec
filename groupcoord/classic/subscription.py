"""Decodes the topics in the subscription metadata of classic consumers. Pure.

The metadata is opaque to the broker. But offsets of subscribed topics are neither expired nor
deleted, so the topics are decoded from it (Apache Kafka's ConsumerProtocolSubscription; all
versions begin with the fields of version 0).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final

from kavka.wire.steps import PauseCounter, Steps

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""

_VERSION_BYTES: Final = 2
_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")
_BYTES_LENGTH: Final = Struct(">i")


def topics_of_all(subscriptions: Iterable[bytes]) -> Steps[frozenset[str] | None]:
    """The union of the topics in some consumers' metadata; None if any can't be decoded.

    Consumers of one group mostly have the same topics, so equal prefixes are decoded once.
    """
    found: set[str] = set()
    before, pauses = b"", PauseCounter()
    for metadata in subscriptions:
        if pauses.is_due(2):
            yield None
        end = _VERSION_BYTES + len(before)
        if before and metadata.startswith(before, _VERSION_BYTES) and _is_whole(metadata, end):
            continue
        read = _read(metadata)
        if read is None:
            return None
        topics, end = read
        if pauses.is_due(3 * len(topics)):
            yield None
        found.update(topics)
        before = metadata[_VERSION_BYTES:end]
    return frozenset(found)


def _read(metadata: bytes) -> tuple[list[str], int] | None:
    """(topics in a consumer's metadata, position after them)."""
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
    """Whether the user data after the topics is complete."""
    try:
        user_data_bytes: int = _BYTES_LENGTH.unpack_from(metadata, end)[0]
    except StructError:
        return False
    return end + _BYTES_LENGTH.size + user_data_bytes <= len(metadata)
