"""Pipeline `verify`: are the records of two topics, or of a topic and a table, the same ones?

`kavka.spark_it.comparing` says which records are the same, and what is found when they are not.
Both sides are read as they are when the comparison starts; what is written meanwhile to one of them
and not yet to the other is found to be lost or extra, unless `ending` leaves it out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.spark_it import records
from kavka.spark_it.common_options import ReadingOptions
from kavka.spark_it.comparing import AUTO, KINDS, PARTS, Report, Rules, compare
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import NO_TEXTS, nearest, option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka.spark_it.progress import Summary

__all__ = ["SUMMARY", "Options", "Report", "Rules", "compare", "run"]

SUMMARY: Final = "compare two topics, or a topic and a table, record by record"

NAME: Final = "verify"


@dataclass(frozen=True, kw_only=True)
class Options(ReadingOptions):
    """Of the pipeline verify. The sides are called first and second."""

    topics: tuple[str, ...] = option(
        "topics of the first side; this, topic_pattern or table is required",
        default=(),
        example="events",
    )
    starting: str = option(
        "where the topics of the first side begin: earliest, latest, a time "
        '(2026-01-31T12:00:00Z), or offsets as {"topic": {"0": 23}}',
        default="earliest",
    )
    ending: str = option("where they end, in the same forms", default="latest")
    table: str | None = option(
        "directory of a table that is the first side", default=None, example="/data/events"
    )
    table_format: str = option(
        "what tables are, of both sides", default="delta", choices=("delta", "parquet")
    )
    columns: Mapping[str, str] = option(
        records.COLUMNS_DOC, default=NO_TEXTS, example=records.COLUMNS_EXAMPLE
    )
    where: str | None = option(
        "only rows of the table for which this SQL expression holds",
        default=None,
        example="kafka.topic = 'events'",
    )
    second_bootstrap_server: str | None = option(
        "brokers of the second side; those of the first if not set",
        default=None,
        example="other:9092",
    )
    second_kafka: Mapping[str, str] = option(
        "settings of the Kafka clients for the second side; those of the first if neither this nor "
        "second_bootstrap_server is set",
        default=NO_TEXTS,
    )
    second_topics: tuple[str, ...] = option(
        "topics of the second side; this, second_topic_pattern or second_table is required",
        default=(),
        example="events-copy",
    )
    second_topic_pattern: str | None = option(
        "topics of the second side whose names match this regular expression (of Java)",
        default=None,
    )
    second_topic_prefix: str = option(
        "what the topics' names of the second side have before those of the first, as MirrorMaker "
        "names them; sides of several topics are compared by name",
        default="",
        example="source.",
    )
    second_starting: str | None = option(
        "where the topics of the second side begin; as the first if not set", default=None
    )
    second_ending: str | None = option("where they end; as the first if not set", default=None)
    second_table: str | None = option(
        "directory of a table that is the second side", default=None, example="/data/copy"
    )
    second_columns: Mapping[str, str] = option(
        "as columns, for the table of the second side", default=NO_TEXTS
    )
    second_where: str | None = option("as where, for the table of the second side", default=None)
    compare: tuple[str, ...] = option(
        "the parts that make a record the same on both sides: key, value, headers, timestamp",
        default=PARTS,
    )
    partitions: str = option(
        "whether a record must be in the partition of the same number, or may be in any",
        default="same",
        choices=("same", "any"),
    )
    order: str = option(
        "what has an order: the records of a partition, or only those of the same key in it",
        default="partition",
        choices=("partition", "key"),
    )
    id: str = option(
        "what a record keeps when it changes, so that it is found to differ instead of lost here "
        "and extra there: key, offset, none, or an SQL expression over topic, partition, offset, "
        "timestamp, key, value and headers; auto takes key where no two records of the first side "
        "have the same, else offset where matched records have the same",
        default=AUTO,
        example="get_json_object(cast(value as string), '$.id')",
    )
    examples_max: int = option("so many findings of each kind are in the summary", default=20)
    findings: str | None = option(
        "write all findings as a Parquet table to this directory, over what is there",
        default=None,
        example="/data/findings",
    )

    def __post_init__(self) -> None:
        _check_side("first", "", self.topics, self.topic_pattern, self.table)
        pattern, table = self.second_topic_pattern, self.second_table
        _check_side("second", "second_", self.second_topics, pattern, table)
        parts = dict.fromkeys(PARTS)
        for part in self.compare:
            if part not in parts:
                raise SparkError(
                    f"compare: no part {part}{nearest(part, parts)}: {', '.join(PARTS)}"
                )
        if not self.compare:
            raise SparkError(f"compare is empty: give one at least of {', '.join(PARTS)}")
        if self.examples_max < 0:
            raise SparkError(f"examples_max is {self.examples_max}: give 0 or more")
        for name in ("starting", "ending"):
            offsets = getattr(self, name).lstrip().startswith("{")
            if offsets and self.second_table is None and getattr(self, f"second_{name}") is None:
                raise SparkError(
                    f"{name} has offsets of the first side's partitions: give second_{name} too "
                    f"(--second-{name})"
                )

    def second_side(self) -> ReadingOptions:
        """The topics of the second side, as options of reading."""
        same_cluster = self.second_bootstrap_server is None
        return ReadingOptions(
            bootstrap_server=self.second_bootstrap_server or self.bootstrap_server,
            kafka=self.second_kafka or (self.kafka if same_cluster else NO_TEXTS),
            topics=self.second_topics,
            topic_pattern=self.second_topic_pattern,
            starting=self.second_starting or self.starting,
            isolation_level=self.isolation_level,
            fail_on_data_loss=self.fail_on_data_loss,
            min_partitions=self.min_partitions,
        )


def _check_side(
    side: str, prefix: str, topics: tuple[str, ...], pattern: str | None, table: str | None
) -> None:
    if sum(bool(value) for value in (topics, pattern, table)) != 1:
        raise SparkError(
            f"the {side} side is either {prefix}topics, {prefix}topic_pattern or {prefix}table "
            f"(--{prefix.replace('_', '-')}topics ...): give one of them"
        )


def run(
    options: Options,
    *,
    spark: SparkSession | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Compare the two sides that the options name.

    `details` of the summary: "equal"; the numbers of "first", "second" and "matched" records; those
    of "lost", "duplicated", "extra", "differing" and "reordered" ones; "id", by which lost and
    extra records were paired; and "examples", the findings with their places.

    Raises SparkError when a side cannot be read, and for an expression that Spark refuses.
    """
    from kavka.spark_it.progress import print_line

    say = report if report is not None else print_line
    if spark is None:
        tables = options.table is not None or options.second_table is not None
        spark = options.session(delta=tables and options.table_format == "delta")
    first, second = _first(spark, options), _second(spark, options)
    began = time.monotonic()
    rules = Rules(
        parts=options.compare,
        partitions=options.partitions,
        order=options.order,
        id=options.id,
        by_topic=_several_topics(options, first, second),
        examples_max=options.examples_max,
    )
    if rules.by_topic and options.second_topic_prefix:
        second = _without_prefix(second, options.second_topic_prefix)
    say(f"{NAME}: reading both sides")
    found = compare(first, second, rules, findings=options.findings)
    for line in lines(found):
        say(f"{NAME}: {line}")
    return _summary(found, time.monotonic() - began)


def lines(found: Report) -> list[str]:
    """What was found, for people."""
    said = [
        f"{found.first:,} records on the first side, {found.second:,} on the second, "
        f"{found.matched:,} matched"
    ]
    for kind in KINDS:
        if found.counts[kind]:
            shown = [finding for finding in found.findings if finding.kind == kind]
            said.append(f"{found.counts[kind]:,} {kind}, the first {len(shown)} of them:")
            said.extend(f"  {finding}" for finding in shown)
    said.append("the sides are equal" if found.equal else "the sides are NOT equal")
    return said


def _summary(found: Report, seconds: float) -> Summary:
    from kavka.spark_it.progress import Summary

    details = {
        "equal": found.equal,
        "first": found.first,
        "second": found.second,
        "matched": found.matched,
        **found.counts,
        "id": found.id,
        "examples": [finding.to_dict() for finding in found.findings],
    }
    rows = found.first + found.second
    return Summary(NAME, batches=1, rows=rows, seconds=seconds, details=details)


def _first(spark: SparkSession, options: Options) -> DataFrame:
    from kavka.spark_it import reading

    if options.table is not None:
        table = records.read_table(spark, options.table, options.table_format)
        return records.of_table(
            table,
            options.columns,
            where=options.where,
            source=options.table,
            needed=options.compare,
        )
    return records.of_topics(reading.batch(spark, options, ending=options.ending))


def _second(spark: SparkSession, options: Options) -> DataFrame:
    from kavka.spark_it import reading

    if options.second_table is not None:
        table = records.read_table(spark, options.second_table, options.table_format)
        return records.of_table(
            table,
            options.second_columns,
            where=options.second_where,
            source=options.second_table,
            needed=options.compare,
            option="second_columns",
        )
    ending = options.second_ending or options.ending
    return records.of_topics(reading.batch(spark, options.second_side(), ending=ending))


def _several_topics(options: Options, first: DataFrame, second: DataFrame) -> bool:
    """Whether records are matched by the topic's name: when a side has more than one topic."""
    if options.topic_pattern or options.second_topic_pattern:
        return True
    if len(options.topics) > 1 or len(options.second_topics) > 1:
        return True
    tables = [
        side for side, path in ((first, options.table), (second, options.second_table)) if path
    ]
    return any(table.select("topic").distinct().limit(2).count() > 1 for table in tables)


def _without_prefix(side: DataFrame, prefix: str) -> DataFrame:
    from pyspark.sql import functions as f

    cut = f.substring(f.col("topic"), len(prefix) + 1, 2**31 - 1)
    name = f.when(f.startswith(f.col("topic"), f.lit(prefix)), cut).otherwise(f.col("topic"))
    return side.withColumn("topic", name)
