"""Changelogs at random, and a plain model of what the pipeline compact-history makes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from support.spark import Record, Stored

PARTITIONS = 3
KEYS = 12
BASE_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name"],
}

BAD_VALUES = (b"{", b"[]", b'{"size": 1}', b'{"name": "x", "size": "many"}')
"""Values that SCHEMA does not allow."""


class Row(NamedTuple):
    """A row of a key: its record's place, what its value says, and when it is valid, in
    milliseconds. Sorted by place, which no two share."""

    partition: int
    offset: int
    key: str
    name: str
    size: int | None
    valid_from: int
    valid_to: int | None

    def known(self) -> tuple[object, ...]:
        """As the form `latest` has it."""
        return self[:5]


def random_changelog(
    chance: random.Random, count: int, *, moved: int = 0, later_s: int = 0
) -> list[Record]:
    """`count` records over KEYS keys, a partition a key: `moved` says by how many partitions it is
    another one. Their times are out of order, and equal ones are frequent, all of them `later_s`
    later than without it; a third are tombstones, often of keys without a row; some are bad."""
    made = []
    for number in range(count):
        key = chance.randrange(KEYS)
        value: bytes | None = None
        if chance.random() < 2 / 3:
            fields = {"name": f"n{number}"} | ({"size": number} if chance.random() < 0.8 else {})
            value = json.dumps(fields).encode()
        if chance.random() < 0.08:
            value = chance.choice(BAD_VALUES)
        keyless = value is not None and chance.random() < 0.05
        made.append(
            Record(
                value,
                key=None if keyless else f"k{key}".encode(),
                partition=(key + moved) % PARTITIONS,
                timestamp_ms=BASE_MS + 1000 * (later_s + number // 4 + chance.randrange(-8, 8)),
            )
        )
    return made


def is_bad(record: Stored) -> bool:
    """Whether a record is neither a row nor a tombstone of a key."""
    return record.key is None or record.value in BAD_VALUES


def rows(records: Iterable[Stored], *, until_ms: int | None = None) -> list[Row]:
    """Every row that every key has had, up to a time (inclusive), as compact-history defines it:
    in the order of each partition and, between partitions, of time, at a time that never goes back
    within a key, and tombstones of keys without a row left out."""
    histories: dict[bytes, list[tuple[int, int, int, Stored]]] = {}
    latest_ms: dict[tuple[bytes, int], int] = {}
    for record in sorted(records, key=lambda r: (r.partition, r.offset)):
        if not is_bad(record):
            assert record.key is not None
            own = (record.key, record.partition)
            latest_ms[own] = max(record.timestamp_ms, latest_ms.get(own, record.timestamp_ms))
            place = (latest_ms[own], record.partition, record.offset)
            histories.setdefault(record.key, []).append((*place, record))
    return sorted(
        row
        for history in histories.values()
        for row in _of_key([record for *_, record in sorted(history)], until_ms)
    )


def _of_key(history: Sequence[Stored], until_ms: int | None) -> Iterator[Row]:
    current: Row | None = None
    now: int | None = None
    for record in history:
        if current is None and record.value is None:
            continue
        now = record.timestamp_ms if now is None else max(now, record.timestamp_ms)
        if until_ms is not None and now > until_ms:
            break
        if current is not None:
            yield current._replace(valid_to=now)
            current = None
        if record.value is not None:
            value = json.loads(record.value)
            assert record.key is not None
            current = Row(
                record.partition,
                record.offset,
                record.key.decode(),
                value["name"],
                value.get("size"),
                now,
                None,
            )
    if current is not None:
        yield current


def latest(records: Iterable[Stored], *, until_ms: int | None = None) -> list[Row]:
    """The rows that are current."""
    return [row for row in rows(records, until_ms=until_ms) if row.valid_to is None]
