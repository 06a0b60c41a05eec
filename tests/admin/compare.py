"""Where two outcomes differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

ABSENT: Final = "<absent>"


@dataclass(frozen=True)
class Difference:
    """`path` is dotted, with the index of a list's item as a part."""

    path: str
    kavka: Any
    kafka: Any


def differences(kavka: Any, kafka: Any, path: str = "") -> Iterator[Difference]:
    """Everything in which two plain values differ."""
    if isinstance(kavka, dict) and isinstance(kafka, dict):
        for key in {**kavka, **kafka}:
            pair = kavka.get(key, ABSENT), kafka.get(key, ABSENT)
            yield from differences(*pair, _under(path, key))
    elif isinstance(kavka, list) and isinstance(kafka, list):
        for index in range(max(len(kavka), len(kafka))):
            pair = _item(kavka, index), _item(kafka, index)
            yield from differences(*pair, _under(path, index))
    elif kavka != kafka:
        yield Difference(path, kavka, kafka)


def _under(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT
