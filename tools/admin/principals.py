"""Principals as command lines have them: type:name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.tools.admin.errors import Failed


class Principal(NamedTuple):
    """Whom a broker knows a client as."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def principals_of(texts: Iterable[str]) -> list[Principal]:
    """Those of such texts. Failed if one is nothing like it."""
    return [_principal(text.strip()) for text in texts]


def _principal(text: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not colon:
        raise Failed(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)
