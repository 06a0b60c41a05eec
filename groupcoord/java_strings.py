"""Texts that go into records, which hold no longer ones. Pure."""

from __future__ import annotations

from typing import Final

TEXT_BYTES_MAX: Final = 32_767
"""As UTF-8. What comes in a request is no longer either, but grows where it was not UTF-8: by the
replacement characters that it is read as."""

_CHARACTER_BYTES_MAX: Final = 4
MEMBER_ID_BYTES: Final = 37
"""What a member id has beside the text that it begins with."""


def fits(text: str, more_bytes: int = 0) -> bool:
    """Whether a record can hold a text, with so many bytes more."""
    room = TEXT_BYTES_MAX - more_bytes
    return len(text) * _CHARACTER_BYTES_MAX <= room or len(text.encode()) <= room
