"""What two answers differ in, after that was made alike which differs by nature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from crc32c import crc32c

from kavka.compat_tests.raw.case import Facts
from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.differences import Difference, items, under
from kavka.compat_tests.raw.nature import NATURE, Nature
from kavka.compat_tests.raw.opened_message_sets import is_set, messages
from kavka.compat_tests.raw.unordered import UNORDERED, Unordered


@dataclass(frozen=True)
class Side:
    """An answer, and the broker that gave it."""

    value: Any
    facts: Facts

    def at(self, value: Any) -> Side:
        return Side(value, self.facts)


def differences(api: str, answered: Side, expected: Side, path: str = "") -> Iterator[Difference]:
    """Everything in which two answers to a request of `api` differ."""
    rules = _rules(api, _shape(path))
    left, right = _alike(rules, answered), _alike(rules, expected)
    if isinstance(left, list) and isinstance(right, list):
        left, right = _sorted(api, answered.at(left), path), _sorted(api, expected.at(right), path)
    if isinstance(left, dict | list) and type(left) is type(right):
        for left_item, right_item, where in items(left, right, path):
            yield from differences(api, answered.at(left_item), expected.at(right_item), where)
    elif isinstance(left, bytes) and isinstance(right, bytes) and left != right:
        left, right = _as_far_as_both(opened(left), opened(right))
        yield from differences(api, answered.at(left), expected.at(right), path)
    elif left != right or type(left) is not type(right):
        yield Difference(path, left, right)


def made_alike(api: str, side: Side, path: str = "") -> Any:
    """An answer with all made alike that differs by nature; this changes nothing a second time."""
    value = _alike(_rules(api, _shape(path)), side)
    if isinstance(value, dict):
        return {
            key: made_alike(api, side.at(item), under(path, key)) for key, item in value.items()
        }
    if isinstance(value, list):
        value = _sorted(api, side.at(value), path)
        return [made_alike(api, side.at(item), under(path, n)) for n, item in enumerate(value)]
    return value


def _as_far_as_both(left: dict[str, Any], right: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Apache Kafka gives an old consumer as many bytes of messages as the batches had that they
    are made of, and Kavka as many as it asked for; both give some if there are any."""
    most = min(len(left["messages"]), len(right["messages"])) or None
    return [{**fields, "messages": fields["messages"][:most]} for fields in (left, right)]


@cache
def _shape(path: str) -> str:
    """A path with 0 for every index, so that there are few of them."""
    return ".".join("0" if part.isdigit() else part for part in path.split("."))


@cache
def _rules(api: str, shape: str) -> Sequence[Nature]:
    return [rule for rule in NATURE if fnmatchcase(shape, rule.path) and fnmatchcase(api, rule.api)]


@cache
def _order(api: str, shape: str) -> Unordered | None:
    found = (rule for rule in UNORDERED if rule.api == api and fnmatchcase(shape, rule.path))
    return next(found, None)


def _alike(rules: Sequence[Nature], side: Side) -> Any:
    value = side.value
    for rule in rules:
        value = rule.made_alike(value, side.facts)
    return value


def _sorted(api: str, side: Side, path: str) -> list[Any]:
    """By what is alike on both sides: an id, say, by what it is the id of."""
    rule = _order(api, _shape(path))
    values: list[Any] = side.value
    if rule is None:
        return values
    if not rule.by:  # of plain values
        return sorted(values, key=str)
    rules = {name: _rules(api, _shape(f"{path}.0.{name}")) for name in rule.by}
    return sorted(
        values,
        key=lambda item: [str(_alike(rules[name], side.at(item[name]))) for name in rule.by],
    )


def opened(records: bytes) -> dict[str, Any]:
    """Record batches, or messages, field by field, to find what differs in them."""
    if is_set(records):
        try:
            return {"batches": [], "messages": messages(records), "rest": ""}
        except Exception:  # each library has its own
            return {"batches": [], "messages": [], "rest": records.hex()}
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
        packed = whole[batches.HEADER_BYTES :]
        payload = batches.inflate(fields["attributes"], packed)
        found.append({**fields, "CRC fits": fits, "packed": packed.hex(), "payload": payload.hex()})
        position += size
    return {"batches": found, "messages": [], "rest": records[position:].hex()}
