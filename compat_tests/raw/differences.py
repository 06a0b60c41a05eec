"""Where two plain values differ: what was answered, and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

ABSENT: Final = "<absent>"


@dataclass(frozen=True)
class Difference:
    """`path` is dotted, with the index of a list's item as a part."""

    path: str
    answered: Any
    expected: Any


def differences(answered: Any, expected: Any, path: str = "") -> Iterator[Difference]:
    """Each place at which two plain values differ; `path` is where they are themselves."""
    pairs = list(items(answered, expected, path))
    for pair in pairs:
        yield from differences(*pair)
    if not pairs and answered != expected:
        yield Difference(path, answered, expected)


def items(answered: Any, expected: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """For each key of two dicts, or index of two lists: what was answered there, what was expected
    (either may be ABSENT), and the path. Nothing for other values."""
    if isinstance(answered, dict) and isinstance(expected, dict):
        for key in {**answered, **expected}:
            yield answered.get(key, ABSENT), expected.get(key, ABSENT), under(path, key)
    elif isinstance(answered, list) and isinstance(expected, list):
        for index in range(max(len(answered), len(expected))):
            yield _item(answered, index), _item(expected, index), under(path, index)


def under(path: str, part: object) -> str:
    """The path of the item `part` (a key or an index) of what is at `path`."""
    return f"{path}.{part}" if path else str(part)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT
