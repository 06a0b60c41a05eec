"""What a comparison of two sides of records must find, by a plain model; and random sides.

The model knows neither digests nor Spark: it goes by the definition in
`kavka.spark_it.comparing`, over lists in memory.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.spark_it.comparing import PARTS, Finding, Place
from support.spark import Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORM = (
    "topic string, partition int, offset bigint, timestamp bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
"""The form of `kavka.spark_it.records`."""

Identity = Callable[[Stored], Hashable]

Names = tuple[tuple[str, bytes | None], ...]


def frame(spark: SparkSession, records: Sequence[Stored]) -> DataFrame:
    return spark.createDataFrame([tuple(record) for record in records], FORM)


def write_table(spark: SparkSession, records: Sequence[Stored], path: str, format: str) -> str:
    """Write records as the pipeline sink writes them raw; the path."""
    kafka = (
        "struct(topic, partition, offset, timestamp_millis(timestamp) as timestamp, key, "
        "nullif(headers, cast(array() as array<struct<key:string,value:binary>>)) as headers)"
    )
    rows = frame(spark, records).selectExpr(f"{kafka} as kafka", "value")
    rows.write.format(format).mode("overwrite").save(path)
    return path


def shown(findings: Iterable[Finding]) -> list[Any]:
    """Findings as the summary of verify has them, to be compared with `in_any_order` of it."""
    return in_any_order([finding.to_dict() for finding in findings])


def in_any_order(examples: Iterable[Mapping[str, Any]]) -> list[Any]:
    """As JSON has them, sorted."""
    return sorted(json.loads(json.dumps(list(examples))), key=json.dumps)


def place(record: Stored) -> Place:
    return Place(record.topic, record.partition, record.offset, record.timestamp_ms, record.key)


def part(record: Stored, name: str) -> Hashable:
    value: Hashable = getattr(record, "timestamp_ms" if name == "timestamp" else name)
    return value


def by_key(record: Stored) -> Hashable:
    return record.key


def by_offset(record: Stored) -> Hashable:
    return record.partition, record.offset


_Named = dict[tuple[Hashable, ...], Stored]
"""Records by what makes them the same, and then their number among those."""


class _Matched(NamedTuple):
    """A record of both sides; where it may lie, when more of its like are on one of them."""

    first: Stored
    second: Stored
    first_at_most: int
    second_at_most: int


def _by_identity(named: _Named) -> dict[tuple[Hashable, ...], list[Stored]]:
    """Those that are the same, in their order."""
    alike: dict[tuple[Hashable, ...], list[Stored]] = defaultdict(list)
    for name, record in named.items():
        alike[name[:-1]].append(record)
    return alike


@dataclass
class Model:
    """Compares topic by topic, of the same names, or two topics; `findings` has all of them."""

    parts: tuple[str, ...] = PARTS
    same_partition: bool = True
    by_key: bool = False
    """Whether only records of the same key have an order."""
    id: Identity | None = None
    by_topic: bool = True
    findings: set[Finding] = field(default_factory=set)
    matched: int = 0

    def compare(self, first: Sequence[Stored], second: Sequence[Stored]) -> set[Finding]:
        named_first, named_second = self._named(first), self._named(second)
        self.matched = len(named_first.keys() & named_second.keys())
        known = {name[:-1] for name in named_first}
        lost = [named_first[name] for name in named_first if name not in named_second]
        extra = [named_second[name] for name in named_second if name[:-1] not in known]
        for name in named_second:
            if name not in named_first and name[:-1] in known:
                self._add("duplicated", None, named_second[name])
        self._differing(lost, extra)
        self._reordered(named_first, named_second)
        return self.findings

    def _named(self, side: Sequence[Stored]) -> _Named:
        """Records by what makes them the same, and their number among those."""
        seen: Counter[tuple[Hashable, ...]] = Counter()
        named = {}
        for record in sorted(side, key=lambda r: (r.topic, r.partition, r.offset)):
            scope = record.partition if self.same_partition else None
            same = (self._topic(record), scope, *(part(record, name) for name in self.parts))
            seen[same] += 1
            named[(*same, seen[same])] = record
        return named

    def _differing(self, lost: list[Stored], extra: list[Stored]) -> None:
        candidates: dict[Hashable, list[Stored]] = defaultdict(list)
        for record in sorted(extra, key=lambda r: (r.topic, r.partition, r.offset)):
            candidates[self._topic(record), self._id(record)].append(record)
        for record in sorted(lost, key=lambda r: (r.topic, r.partition, r.offset)):
            found = candidates[self._topic(record), self._id(record)]
            if self._id(record) is None or not found:
                self._add("lost", record, None)
                continue
            other = found.pop(0)
            differs = [name for name in self.parts if part(record, name) != part(other, name)]
            if self.same_partition and record.partition != other.partition:
                differs.append("partition")
            self._add("differing", record, other, differs=tuple(differs))
        for records in candidates.values():
            for record in records:
                self._add("extra", None, record)

    def _topic(self, record: Stored) -> str | None:
        return record.topic if self.by_topic else None

    def _id(self, record: Stored) -> Hashable:
        return None if self.id is None else self.id(record)

    def _reordered(self, named_first: _Named, named_second: _Named) -> None:
        """Whichever of the records that are the same were lost or duplicated."""
        first_by_identity, second_by_identity = (
            _by_identity(named_first),
            _by_identity(named_second),
        )
        groups: dict[Hashable, list[_Matched]] = defaultdict(list)
        for name in named_first.keys() & named_second.keys():
            before, after = first_by_identity[name[:-1]], second_by_identity[name[:-1]]
            if any(len({r.partition for r in side}) > 1 for side in (before, after)):
                continue
            first, second = named_first[name], named_second[name]
            if not self.by_key or first.key is not None:
                key = (first.key, second.key) if self.by_key else None
                matched = _Matched(
                    first,
                    second,
                    first_at_most=(before[-1] if len(before) > len(after) else first).offset,
                    second_at_most=(after[-1] if len(after) > len(before) else second).offset,
                )
                groups[first.topic, first.partition, second.partition, key].append(matched)
        for pairs in groups.values():
            behind = sorted(pairs, key=lambda pair: pair.first.offset)
            offsets = [pair.first.offset for pair in behind]
            # The least behind each place, so that only those that were overtaken are looked at.
            least = list(accumulate((pair.second_at_most for pair in reversed(behind)), min))[::-1]
            for pair in pairs:
                start = bisect_right(offsets, pair.first_at_most)
                if start == len(behind) or least[start] >= pair.second.offset:
                    continue
                overtaking = max(
                    (ahead.first.offset, ahead.second_at_most)
                    for ahead in behind[start:]
                    if ahead.second_at_most < pair.second.offset
                )
                self._add("reordered", pair.first, pair.second, overtaken_by=overtaking)

    def _add(
        self,
        kind: str,
        first: Stored | None,
        second: Stored | None,
        *,
        differs: tuple[str, ...] = (),
        overtaken_by: tuple[int, int] | None = None,
    ) -> None:
        sides = (place(first) if first else None, place(second) if second else None)
        self.findings.add(Finding(kind, *sides, differs, overtaken_by))


KEYS: tuple[bytes | None, ...] = (None, b"", b"a", b"ab", b"1:a", b"-")
VALUES: tuple[bytes | None, ...] = (None, b"", b"b", b"ab", b"1:b", b"-", b"\xff\x00")
HEADERS: tuple[Names, ...] = (
    (),
    (("a", None),),
    (("a", b""),),
    (("a", b"b"), ("", b"-")),
    (("", b"-"), ("a", b"b")),
    (("ab", b""), ("", b"")),
)


def random_side(
    chance: random.Random, topic: str, *, records: int, unique_keys: bool = False
) -> list[Stored]:
    """Records of three partitions, with gaps between their offsets: many are the same, and many
    would be if lengths did not tell their parts apart."""
    made, ends = [], Counter[int]()
    for number in range(records):
        partition = chance.randrange(3)
        offset = ends[partition] + chance.choice((0, 0, 0, 1, 5))
        ends[partition] = offset + 1
        key = f"key {number}".encode() if unique_keys else chance.choice(KEYS)
        made.append(
            Stored(
                topic,
                partition,
                offset,
                chance.choice((0, 1, 12, 1_700_000_000_000)),
                key,
                chance.choice(VALUES),
                chance.choice(HEADERS),
            )
        )
    return made


def with_faults(
    chance: random.Random, side: Sequence[Stored], faults: int, *, keep_places: bool = False
) -> list[Stored]:
    """A copy of a side with so many faults: losses, duplicates, swaps, changed parts, records moved
    to another partition, new ones. With `keep_places` only losses and changes, and the others keep
    their offsets; else offsets are dense."""
    copy = list(side)
    for _ in range(faults):
        if copy:
            index = chance.randrange(len(copy))
            kinds = (_lose, _change) if keep_places else FAULTS
            chance.choice(kinds)(chance, copy, index)
    return copy if keep_places else dense(copy)


def dense(records: Iterable[Stored]) -> list[Stored]:
    """With offsets in the order of the list, from 0, in each partition."""
    ends = Counter[int]()
    placed = []
    for record in records:
        placed.append(record._replace(offset=ends[record.partition]))
        ends[record.partition] += 1
    return placed


def _lose(chance: random.Random, copy: list[Stored], index: int) -> None:
    del copy[index]


def _duplicate(chance: random.Random, copy: list[Stored], index: int) -> None:
    copy.insert(chance.randrange(index, len(copy)) + 1, copy[index])


def _swap(chance: random.Random, copy: list[Stored], index: int) -> None:
    other = chance.randrange(len(copy))
    copy[index], copy[other] = copy[other], copy[index]


def _change(chance: random.Random, copy: list[Stored], index: int) -> None:
    record = copy[index]
    copy[index] = chance.choice(
        (
            record._replace(value=chance.choice(VALUES)),
            record._replace(headers=chance.choice(HEADERS)),
            record._replace(timestamp_ms=chance.randrange(100)),
        )
    )


def _move(chance: random.Random, copy: list[Stored], index: int) -> None:
    copy[index] = copy[index]._replace(partition=chance.randrange(3))


def _insert(chance: random.Random, copy: list[Stored], index: int) -> None:
    new = copy[index]._replace(key=f"new {chance.randrange(10)}".encode())
    copy.insert(index, new)


FAULTS = (_lose, _duplicate, _swap, _change, _move, _insert)
