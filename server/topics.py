"""Names of topics: which are allowed, and which are the broker's own."""

from __future__ import annotations

import re
from typing import Final

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Written by coordinators only; clients may read them."""

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """What is wrong with a topic's name, in words for its owner; None when nothing is."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"the topic name cannot be '{name}'"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name has {len(name)} characters; {NAME_LENGTH_MAX} are allowed"
    if not _LEGAL.fullmatch(name):
        return (
            f"the topic name '{name}' has a character other than ASCII letters and digits, "
            "'.', '_' and '-'"
        )
    return None
