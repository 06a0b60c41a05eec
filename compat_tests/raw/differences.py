"""Where two plain values differ: of Kavka and of Apache Kafka."""

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
    pairs = list(items(kavka, kafka, path))
    for pair in pairs:
        yield from differences(*pair)
    if not pairs and kavka != kafka:
        yield Difference(path, kavka, kafka)


def items(kavka: Any, kafka: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """The items of two dicts or two lists, with their paths; nothing for other values."""
    if isinstance(kavka, dict) and isinstance(kafka, dict):
        for key in {**kavka, **kafka}:
            yield kavka.get(key, ABSENT), kafka.get(key, ABSENT), _under(path, key)
    elif isinstance(kavka, list) and isinstance(kafka, list):
        for index in range(max(len(kavka), len(kafka))):
            yield _item(kavka, index), _item(kafka, index), _under(path, index)


def _under(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT
