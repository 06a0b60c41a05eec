"""Compares two sides of records, each a data frame in the form of `kavka.spark_it.records`.

**The same record.** Two records are the same when the chosen parts (key, value, headers, timestamp)
are: their encoding, which no two different records share, is digested with SHA-256. Records that
are the same are distinguished by their number: the n-th of the first side is matched with the n-th
of the second, in the order of topic, partition and offset. Matched are records of the partition
with the same number (`partitions="same"`), or wherever they are ("any"); of topics with the same
name when a side has more than one.

**Findings.**

- lost: on the first side only.
- duplicated: on the second side only, and the first has the same record, but less often.
- extra: on the second side only, and the first has no such record.
- differing: a lost and an extra record with the same id are one record that has changed: the n-th
  lost of an id and the n-th extra. Neither is counted as lost or extra. `differs` names the parts
  that are not the same; "partition" is among them when the record moved to another one. An id is
  looked for in all partitions; an offset within the partition.
- reordered: a matched record that has been overtaken: on the second side a record lies before it
  that lies behind it on the first. Compared are records that share the partition on both sides,
  and with `order="key"` the key too; then records without a key have no order. Only what is
  certain counts. Of records that are the same, but more on one side than on the other, it can't
  be known which were lost or duplicated: none of the places that such a record may have had must
  be in order. And those that lie in more than one partition of a side have no order.

**Scale.** Each side is read once. Records are shuffled by their digests, then matched ones by
partition, so that no task holds more than a partition, and of the values only the digests travel.
A record that is there a great many times is compared by one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.spark_it.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

PARTS: Final = ("key", "value", "headers", "timestamp")
KINDS: Final = ("lost", "duplicated", "extra", "differing", "reordered")
MATCHED: Final = "matched"

AUTO: Final = "auto"
KEY: Final = "key"
OFFSET: Final = "offset"
NO_ID: Final = "none"
OFFSETS_KEPT: Final = 0.9

PLACE: Final = "struct<topic:string,partition:int,offset:bigint,timestamp:bigint,key:binary>"
FINDING: Final = (
    f"kind string, first {PLACE}, second {PLACE}, differs array<string>, "
    "overtaken_by struct<first:bigint,second:bigint>"
)
"""The columns of the table of findings; `overtaken_by` are the offsets of the record that has
overtaken this one, on both sides."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How two sides are compared; see the module."""

    parts: tuple[str, ...] = PARTS
    partitions: str = "same"
    """same or any."""
    order: str = "partition"
    """partition or key."""
    id: str = AUTO
    """key, offset, none, an SQL expression over the record's columns; or auto: key when each
    record of the first side has another one, else offset when nearly all matched records (nine of
    ten) have the same offset on both sides, else none."""
    by_topic: bool = False
    """Topics are compared by name: a side has more than one."""
    examples_max: int = 20
    """So many findings of each kind are in the report."""


class Place(NamedTuple):
    """Where a record lies, its timestamp (ms) and its key."""

    topic: str | None
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None

    def __str__(self) -> str:
        topic = "" if self.topic is None else f"{self.topic}-"
        return f"{topic}{self.partition}-{self.offset}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: a key that is not UTF-8 is shown with U+FFFD."""
        key = None if self.key is None else self.key.decode(errors="replace")
        return {**self._asdict(), "key": key}


@dataclass(frozen=True)
class Finding:
    """One difference; `first` and `second` are the record's places, None where it is not."""

    kind: str
    first: Place | None
    second: Place | None
    differs: tuple[str, ...] = ()
    overtaken_by: tuple[int, int] | None = None
    """Of reordered: the offsets on both sides of the one that overtook it."""

    def __str__(self) -> str:
        places = f"{self.first or 'nowhere'} | {self.second or 'nowhere'}"
        if self.differs:
            return f"{self.kind} {places}: {', '.join(self.differs)}"
        if self.overtaken_by:
            return f"{self.kind} {places}: overtaken by offsets {self.overtaken_by}"
        return f"{self.kind} {places}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without what is empty."""
        fields = {
            "kind": self.kind,
            "first": self.first.to_dict() if self.first else None,
            "second": self.second.to_dict() if self.second else None,
            "differs": list(self.differs),
            "overtaken_by": self.overtaken_by,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass
class Report:
    """What a comparison found."""

    first: int = 0
    """Records of the first side."""
    second: int = 0
    matched: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    """Findings by kind."""
    id: str = NO_ID
    """By what lost and extra records were paired: key, offset, none or the expression."""
    findings: list[Finding] = field(default_factory=list)
    """The first ones of each kind, in the order of their places."""

    @property
    def equal(self) -> bool:
        return not any(self.counts.values())


def compare(
    first: DataFrame, second: DataFrame, rules: Rules, *, findings: str | None = None
) -> Report:
    """Compare two sides; all findings go into a Parquet table at `findings` if it is given.

    SparkError when Spark refuses the expression of the id, or cannot read a side.
    """
    from pyspark.errors import PySparkException

    from kavka.spark_it.running import reason

    try:
        pairs = _pairs(_prepared(first, rules), _prepared(second, rules)).persist()
        try:
            return _report(pairs, rules, findings)
        finally:
            pairs.unpersist()
    except PySparkException as failure:
        raise SparkError(f"the comparison failed: {reason(failure)}") from failure


def _prepared(side: DataFrame, rules: Rules) -> DataFrame:
    """`digest`, and what a finding says of a record. Where only records of the same topic or
    partition match, its name and number are in the digest."""
    from pyspark.sql import functions as f

    scope = ["topic"] if rules.by_topic else []
    scope += ["partition"] if rules.partitions == "same" else []
    known = (AUTO, KEY, OFFSET, NO_ID)
    identity = "cast(null as string)" if rules.id in known else f"cast(({rules.id}) as string)"
    encoded = f"concat({', '.join(ENCODED[part] for part in (*scope, *rules.parts))})"
    return side.select(
        f.expr(f"unhex(sha2({encoded}, 256))").alias("digest"),
        *("topic", "partition", "offset"),  # to sort by, once
        f.struct(
            *("topic", "partition", "offset", "timestamp", "key"),
            f.expr(identity).alias("id"),
            f.expr(f"xxhash64({ENCODED['value']})").alias("value"),
            f.expr(f"xxhash64({ENCODED['headers']})").alias("headers"),
        ).alias("record"),
    )


def _net(binary: str) -> str:
    """SQL for a netstring, length:bytes; a hyphen for null. What follows it cannot be taken for a
    part of it, so that strings of netstrings are different whenever their parts are."""
    length = f"coalesce(concat(octet_length({binary}), ':'), '-')"
    return f"concat(cast({length} as binary), coalesce({binary}, X''))"


_HEADER: Final = f"concat(all, {_net('cast(h.key as binary)')}, {_net('h.value')})"

ENCODED: Final = {
    "topic": _net("cast(topic as binary)"),
    "partition": _net("cast(cast(partition as string) as binary)"),
    "key": _net("key"),
    "value": _net("value"),
    "headers": _net(f"aggregate(coalesce(headers, array()), X'', (all, h) -> {_HEADER})"),
    "timestamp": _net("cast(cast(timestamp as string) as binary)"),
}
"""The parts of a record as SQL of type binary."""


def _pairs(first: DataFrame, second: DataFrame) -> DataFrame:
    """One row a record: `first` and `second`, either of them null, and its `kind`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    both = first.withColumn("side", f.lit(1)).union(second.withColumn("side", f.lit(2)))
    place = ("topic", "partition", "offset")
    there = Window.partitionBy("digest", "side").orderBy(*place)
    same = Window.partitionBy("digest").orderBy("side", *place)
    alike = Window.partitionBy("digest", "side")
    partition = f.col("partition")
    numbered = (
        both.repartition("digest")  # serves all windows and the groups: one shuffle
        .withColumn("n", f.row_number().over(there))
        .withColumn("known", f.min("side").over(same) == 1)  # the first side comes first
        .withColumn("alike", f.count("*").over(alike))
        .withColumn("last", f.max("offset").over(alike))
        .withColumn("spread", f.min(partition).over(alike) != f.max(partition).over(alike))
    )
    for name in ("alike", "last", "spread"):
        numbered = numbered.withColumn("record", f.col("record").withField(name, f.col(name)))
    sides = [
        f.first(f.when(f.col("side") == number, f.col("record")), ignorenulls=True).alias(name)
        for number, name in ((1, "first"), (2, "second"))
    ]
    pairs = numbered.groupBy("digest", "n").agg(*sides, f.first("known").alias("known"))
    kind = (
        f.when(f.col("second").isNull(), "lost")
        .when(f.col("first").isNotNull(), MATCHED)
        .when(f.col("known"), "duplicated")
        .otherwise("extra")
    )
    return pairs.select("first", "second", kind.alias("kind"))


def _report(pairs: DataFrame, rules: Rules, path: str | None) -> Report:
    from pyspark.sql import functions as f

    report = Report()
    kept = f.expr("count_if(first.offset = second.offset)")
    offsets_kept = False
    for kind, count, same_offset in pairs.groupBy("kind").agg(f.count("*"), kept).collect():
        report.first += count * (kind in ("lost", MATCHED))
        report.second += count * (kind != "lost")
        if kind == MATCHED:
            report.matched = count
            # Not all: of records that are the same another one may have been lost.
            offsets_kept = same_offset >= OFFSETS_KEPT * count
        else:
            report.counts[kind] = count
    found = _reordered(pairs, rules).union(_alone(pairs, ("duplicated",)))
    if report.counts["lost"] and report.counts["extra"]:
        report.id = _id(pairs, rules, offsets_kept)
        found = found.union(_differing(pairs, rules, report.id))
    else:
        found = found.union(_alone(pairs, ("lost", "extra")))
    if path is not None:
        found.write.mode("overwrite").parquet(path)
        found = found.sparkSession.read.parquet(path)
    _count(report, found, rules.examples_max)
    return report


def _count(report: Report, found: DataFrame, examples_max: int) -> None:
    """Take the findings into the report: their numbers, and the first of each kind."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    where = f.coalesce("first", "second")
    order = [where[name] for name in ("topic", "partition", "offset")] + [f.col("second.offset")]
    nth = f.row_number().over(Window.partitionBy("kind").orderBy(*order))
    found = found.persist()
    try:
        counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        report.counts = {kind: counts.get(kind, 0) for kind in KINDS}
        shown = found.withColumn("n", nth).where(f.col("n") <= examples_max).collect()
    finally:
        found.unpersist()
    shown.sort(key=lambda row: (KINDS.index(row.kind), row.n))
    report.findings = [_finding(row) for row in shown]


def _finding(row: Row) -> Finding:
    return Finding(
        row.kind,
        _place(row.first),
        _place(row.second),
        tuple(row.differs or ()),
        tuple(row.overtaken_by) if row.overtaken_by else None,
    )


def _place(row: Row | None) -> Place | None:
    if row is None:
        return None
    key = None if row.key is None else bytes(row.key)
    return Place(row.topic, row.partition, row.offset, row.timestamp, key)


def _as_findings(frame: DataFrame, **columns: Column) -> DataFrame:
    """`frame` with the columns of FINDING; those that are not given are its own, or null."""
    from pyspark.sql import functions as f

    def column(name: str, type: str) -> Column:
        if name in columns:
            return columns[name].cast(type).alias(name)
        if name not in frame.columns:
            return f.lit(None).cast(type).alias(name)
        if type != PLACE:
            return f.col(name)
        fields = [f.col(f"{name}.{part}") for part in Place._fields]
        return f.when(f.col(name).isNotNull(), f.struct(*fields)).alias(name)

    names = [part.split(" ", 1) for part in FINDING.split(", ")]
    return frame.select(*[column(name, type) for name, type in names])


def _alone(pairs: DataFrame, kinds: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    return _as_findings(pairs.where(f.col("kind").isin(*kinds)))


def _reordered(pairs: DataFrame, rules: Rules) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    matched = pairs.where(f.expr(f"kind = '{MATCHED}' AND NOT (first.spread OR second.spread)"))
    shared = [f"{side}.{name}" for side in ("first", "second") for name in ("topic", "partition")]
    if rules.order == KEY:
        matched = matched.where(f.col("first.key").isNotNull())
        shared += ["first.key", "second.key"]
    # A record that was duplicated is overtaken by what lies before its first copy, and overtakes
    # what lies behind its last one: it has a row for each. Of one that was lost, what is left may
    # be the last on the first side.
    placed = matched.select(
        "first",
        "second",
        f.expr("if(first.alike > second.alike, first.last, first.offset)").alias("behind"),
        f.expr("if(second.alike > first.alike, second.last, second.offset)").alias("copy"),
    )
    overtaking = f.struct(f.col("first.offset").alias("first"), f.col("copy").alias("second"))
    copied = f.col("copy") > f.col("second.offset")
    rows = placed.select(
        "*", f.col("second.offset").alias("at"), f.when(~copied, overtaking).alias("overtaking")
    ).union(
        placed.where(copied).select(
            *("first", "second", f.lit(None).cast("bigint"), "copy"),
            *(f.col("copy"), overtaking),
        )
    )
    before = Window.partitionBy(*shared).orderBy("at").rowsBetween(Window.unboundedPreceding, -1)
    found = rows.withColumn("overtaken_by", f.max("overtaking").over(before)).where(
        f.col("overtaken_by.first") > f.col("behind")
    )
    return _as_findings(found, kind=f.lit("reordered"))


def _id(pairs: DataFrame, rules: Rules, offsets_kept: bool) -> str:
    """By what lost and extra records are paired."""
    from pyspark.sql import functions as f

    if rules.id != AUTO:
        return rules.id
    owner = ["first.topic", "first.key"] if rules.by_topic else ["first.key"]
    first = pairs.where(f.col("first").isNotNull())
    shared = first.groupBy(*owner).count()
    if shared.where(f.col("key").isNull() | (f.col("count") > 1)).isEmpty():
        return KEY
    return OFFSET if offsets_kept and rules.partitions == "same" else NO_ID


def _differing(pairs: DataFrame, rules: Rules, identity: str) -> DataFrame:
    """Lost and extra records, those with the same id as pairs."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    def side(name: str, kind: str) -> DataFrame:
        topic = f"{name}.topic" if rules.by_topic else "cast(null as string)"
        partition = f"{name}.partition" if rules.partitions == "same" else "0"
        ids = {
            KEY: f"hex({name}.key)",
            OFFSET: f"concat_ws('-', {partition}, {name}.offset)",
            NO_ID: "cast(null as string)",
        }
        place = [f.col(f"{name}.{part}") for part in ("topic", "partition", "offset")]
        alone = pairs.where(f.col("kind") == kind).select(
            f.expr(topic).alias("topic_id"),
            f.expr(ids.get(identity, f"{name}.id")).alias("id"),
            f.col(name),
        )
        numbers = Window.partitionBy("topic_id", "id").orderBy(*place)
        return alone.withColumn("number", f.row_number().over(numbers))

    lost, extra = side("first", "lost"), side("second", "extra")
    joined = lost.join(
        extra,
        lost.topic_id.eqNullSafe(extra.topic_id)
        & (lost.id == extra.id)
        & (lost.number == extra.number),
        "full_outer",
    ).select("first", "second")
    changed = [
        f.when(~f.col(f"first.{part}").eqNullSafe(f.col(f"second.{part}")), f.lit(part))
        for part in (*rules.parts, *(("partition",) if rules.partitions == "same" else ()))
    ]
    both = f.col("first").isNotNull() & f.col("second").isNotNull()
    return _as_findings(
        joined,
        kind=f.when(both, "differing").when(f.col("second").isNull(), "lost").otherwise("extra"),
        differs=f.when(both, f.array_compact(f.array(*changed))),
    )
