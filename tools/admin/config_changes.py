"""What `--add-config`, `--add-config-file` and `--delete-config` ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.admin.command import read_properties
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given
from kavka.tools.java_numbers import trimmed

NOT_IN_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
BETWEEN: Final = re.compile("," + NOT_IN_BRACKETS)
EQUALS: Final = re.compile(r"\s*=\s*" + NOT_IN_BRACKETS, re.ASCII)
NAME: Final = re.compile("[$a-zA-Z0-9._-]*")


class Changes(NamedTuple):
    """Configs to set, by name, and the names of those to remove."""

    added: Mapping[str, str]
    deleted: Sequence[str]


def changes(given: Given) -> Changes:
    """Those that the options ask for. Misused; Failed if the file can't be read."""
    added: dict[str, str] = {}
    path = given.text("add-config-file")
    if path is not None:
        added |= read_properties(path)
    text = given.text("add-config")
    if text is not None:
        added |= _pairs(text)
    for name in added:
        if not NAME.fullmatch(name):
            raise Misused(f"Invalid character found for config key: {name}")
    return Changes(added, [trimmed(name) for name in _names(given)])


def _pairs(text: str) -> dict[str, str]:
    """NAME=VALUE with commas between; those within square brackets belong to a value."""
    found = {}
    parts = BETWEEN.split(text)
    while len(parts) > 1 and not parts[-1]:  # as Java's split; a lone comma leaves nothing
        parts.pop()
    for part in [] if text and not parts[0] and len(parts) == 1 else parts:
        pair = EQUALS.split(part)
        if len(pair) != 2:
            raise Misused(
                "Invalid entity config: all configs to be added must be in the format "
                '"key=val" or "key=[val1,val2]" to group values which contain commas'
            )
        found[trimmed(pair[0])] = trimmed(re.sub(r"[\[\]]", "", pair[1]))
    return found


def _names(given: Given) -> list[str]:
    """Names with commas between; nothing between two commas is no name."""
    found = []
    for text in given.texts("delete-config"):
        found += [name for name in text.split(",") if name] or [text]
    return found
