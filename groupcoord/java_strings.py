"""The length limit of strings in records, as in Apache Kafka. Pure."""

from __future__ import annotations

from typing import Final

TEXT_BYTES_MAX: Final = 32_767
"""In UTF-8. Strings in requests have the same limit, but invalid UTF-8 grows when it is decoded to
replacement characters."""

_CHARACTER_BYTES_MAX: Final = 4
MEMBER_ID_BYTES: Final = 37
"""Bytes of a member id besides its prefix."""


def fits(text: str, more_bytes: int = 0) -> bool:
    """Whether a text and `more_bytes` fit into a record's string."""
    room = TEXT_BYTES_MAX - more_bytes
    return len(text) * _CHARACTER_BYTES_MAX <= room or len(text.encode()) <= room
