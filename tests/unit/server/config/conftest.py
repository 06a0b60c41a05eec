"""Reads what Apache Kafka said; `data/Record.java` says how it was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

DATA = Path(__file__).parent / "data"
Field: TypeAlias = str | None
Recorded: TypeAlias = Callable[[str], list[list[Field]]]
_PLAIN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "\\": "\\"}


def _field(text: str) -> Field:
    if text == "∅":
        return None
    text = re.sub(r"\\u([0-9a-f]{4})|\\(.)", _plain, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _plain(escape: re.Match[str]) -> str:
    return _PLAIN[escape[2]] if escape[2] else chr(int(escape[1], 16))


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """Lines of a recorded file, as lists of fields."""

    def read(name: str) -> list[list[Field]]:
        text = (DATA / name).read_text("utf-8")
        return [[_field(part) for part in line.split("\t")] for line in text.split("\n") if line]

    return read


@pytest.fixture(scope="session")
def properties() -> Callable[[str], bytes]:
    """Content of a recorded broker's settings."""

    def read(name: str) -> bytes:
        return (DATA / name).read_bytes()

    return read
