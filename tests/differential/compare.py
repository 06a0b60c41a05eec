"""What two answers differ in, after that was made alike which differs by nature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from crc32c import crc32c

from differential.allowed import NATURE, UNORDERED
from differential.case import Facts
from support import batches

ABSENT: Final = "<absent>"


@dataclass(frozen=True)
class Side:
    """An answer, and the broker that gave it."""

    value: Any
    facts: Facts

    def at(self, value: Any) -> Side:
        return Side(value, self.facts)


@dataclass(frozen=True)
class Difference:
    """Where two answers differ; what is made alike is shown so."""

    path: str
    kavka: Any
    kafka: Any


def differences(api: str, kavka: Side, kafka: Side, path: str = "") -> Iterator[Difference]:
    """Everything in which two answers to a request of `api` differ."""
    left, right = _alike(api, kavka, path), _alike(api, kafka, path)
    if isinstance(left, dict) and isinstance(right, dict):
        for name in {**left, **right}:
            pair = kavka.at(left.get(name, ABSENT)), kafka.at(right.get(name, ABSENT))
            yield from differences(api, *pair, _under(path, name))
    elif isinstance(left, list) and isinstance(right, list):
        left, right = _sorted(api, left, path), _sorted(api, right, path)
        for index in range(max(len(left), len(right))):
            pair = kavka.at(_item(left, index)), kafka.at(_item(right, index))
            yield from differences(api, *pair, _under(path, index))
    elif isinstance(left, bytes) and isinstance(right, bytes) and left != right:
        yield from differences(api, kavka.at(opened(left)), kafka.at(opened(right)), path)
    elif left != right or type(left) is not type(right):
        yield Difference(path, left, right)


def _under(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _alike(api: str, side: Side, path: str) -> Any:
    value = side.value
    for rule in NATURE:
        if fnmatchcase(path, rule.path) and fnmatchcase(api, rule.api):
            value = rule.made_alike(value, side.facts)
    return value


def _sorted(api: str, values: list[Any], path: str) -> list[Any]:
    for rule in UNORDERED:
        if rule.api == api and fnmatchcase(path, rule.path):
            return sorted(values, key=lambda one: [str(one[name]) for name in rule.by])
    return values


def opened(records: bytes) -> dict[str, Any]:
    """Record batches field by field, for telling what differs in them."""
    found: list[Any] = []
    position = 0
    while len(records) - position >= batches.HEADER_BYTES:
        batch = records[position:]
        fields = {name: batches.field(batch, name) for name in batches.FIELDS}
        size = fields["batch_length"] + 12
        if fields["magic"] != 2 or not batches.HEADER_BYTES <= size <= len(batch):
            break
        whole = batch[:size]
        fits = fields.pop("crc") == crc32c(whole[batches.CRC_START :])
        payload = whole[batches.HEADER_BYTES :].hex()
        found.append({**fields, "CRC fits": fits, "payload": payload})
        position += size
    return {"batches": found, "rest": records[position:].hex()}
