"""The history of keys in a changelog topic, as frames: records with a key set the key's row,
records without a value (tombstones) remove it.

    records ─ judged ─┬─ rejected     no key, or a value that does not parse
                      └─ events ─┬─ newest               the last event of each key
                                 └─ effective ─ versions   every row a key has had, with its times

Events of a key are in the order of their offsets within a partition. A key is in one partition, as
Kafka's producers have it, until the topic gets more partitions or the producer another way to
choose them. Between partitions the order is that of time, then of partition; the time of an event
is then the latest of its key's in its partition up to it, so that the two orders agree.

Times are the records', which need not be in that order. As an event cannot take effect before the
one that it follows, its time is the latest of its key's history so far. A tombstone of a key that
has no row changes nothing, and its time does not count.

Keys of several topics are apart: one in two topics has two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.parsing import PARSED, PLACE, REASON, VALUE, Parser

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

DELETED: Final = "_deleted"
AT: Final = "_at"
"""Columns of ours: whether the event is a tombstone, and when it takes effect."""

TOPIC: Final = "_topic"
ORDER: Final = "_order"
"""Columns for what histories are sorted by, made once: then Spark shuffles once."""

VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
IS_CURRENT: Final = "is_current"
"""Columns of versions; `valid_to` is null for the one that is current."""

OURS: Final = (PLACE, VALID_FROM, VALID_TO, IS_CURRENT, DELETED, AT, TOPIC, ORDER)


def judged(records: DataFrame, parser: Parser, *, key_is_text: bool) -> DataFrame:
    """Each record with `kafka`, `value` (the bytes), `parsed`, and `reason` if it is no event."""
    from pyspark.sql import functions as f

    found = parser.judge(records)
    key = f.col(f"{PLACE}.key")
    reason = f.when(key.isNull(), f.lit("has no key"))
    if key_is_text:
        broken = ~f.is_valid_utf8(key.cast("string"))
        reason = reason.when(broken, f.lit("has a key that is not UTF-8 (see key_format)"))
    reason = reason.when(f.col(VALUE).isNotNull(), f.col(REASON))
    return found.withColumn(REASON, reason)


def rejected(found: DataFrame) -> DataFrame:
    """`kafka`, `value` and `reason` of the judged records that are no events."""
    from pyspark.sql import functions as f

    return found.where(f.col(REASON).isNotNull()).select(PLACE, VALUE, REASON)


def events(found: DataFrame, key_column: str, *, key_is_text: bool) -> DataFrame:
    """The judged records that set or remove a row: the key, the value's columns, `kafka`, ours."""
    from pyspark.sql import functions as f

    fields = found.schema[PARSED].dataType.fieldNames()  # type: ignore[attr-defined]
    taken = [name for name in fields if name.casefold() in (key_column.casefold(), *OURS)]
    if taken or key_column.casefold() in OURS:
        raise SparkError(
            f"key_column: the table has a column {taken[0] if taken else key_column} besides; "
            f"give the key another name than {key_column} (--key-column), or rename the field"
        )
    key = f.col(f"{PLACE}.key")
    return found.where(f.col(REASON).isNull()).select(
        (key.cast("string") if key_is_text else key).alias(key_column),
        f"{PARSED}.*",
        PLACE,
        f.col(VALUE).isNull().alias(DELETED),
        f.col(f"{PLACE}.timestamp").alias(AT),
    )


def newest(frame: DataFrame, key_column: str) -> DataFrame:
    """The last event of each key, with all its columns. Its time is the latest of its key's in its
    partition, but for effective events, which keep theirs."""
    from pyspark.sql import functions as f

    if ORDER in frame.columns:
        return _last(frame, key_column, f.col(ORDER))
    place = f.col(PLACE)
    last = f.max_by(f.struct("*"), place["offset"]).alias("_last")
    by_partition = frame.groupBy(place["topic"], place["partition"], f.col(key_column))
    lasts = by_partition.agg(last, f.max(AT).alias("_latest"))
    timed = lasts.select("_last.*", "_latest").withColumn(AT, f.col("_latest")).drop("_latest")
    return _last(timed, key_column, f.struct(AT, place["partition"]))


def _last(frame: DataFrame, key_column: str, order: Column) -> DataFrame:
    """The row of each key that is the last in an order."""
    from pyspark.sql import functions as f

    topic = f.col(f"{PLACE}.topic").alias("_of_topic")
    last = f.max_by(f.struct("*"), order).alias("_last")
    return frame.groupBy(topic, key_column).agg(last).select("_last.*")


def _placed(frame: DataFrame, key_column: str) -> DataFrame:
    """With the columns that histories are sorted by."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.col(PLACE)
    own = Window.partitionBy(TOPIC, key_column, place["partition"]).orderBy(place["offset"])
    latest = f.max(AT).over(own)  # of those with the same offset too
    order = f.struct(latest, place["partition"], place["offset"])
    topics = frame.withColumn(TOPIC, place["topic"])
    return topics.repartition(TOPIC, key_column).withColumn(ORDER, order)


def _history(key_column: str) -> WindowSpec:
    from pyspark.sql.window import Window

    # a tombstone that `_seeds` makes has the place of the row that it ends
    return Window.partitionBy(TOPIC, key_column).orderBy(ORDER, DELETED)


def effective(frame: DataFrame, key_column: str) -> DataFrame:
    """The events that change something, each at the time when it takes effect."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    history = _history(key_column)
    no_row = f.lag(DELETED, 1, True).over(history)
    so_far = history.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    frame = frame if ORDER in frame.columns else _placed(frame, key_column)
    return (
        frame.withColumn("_no_row", no_row)
        .where(~(f.col(DELETED) & f.col("_no_row")))
        .drop("_no_row")
        .withColumn(AT, f.max(AT).over(so_far))
    )


def versions(frame: DataFrame, key_column: str) -> DataFrame:
    """Effective events as rows with `valid_from`, `valid_to` and `is_current`: the time to the
    next event of the key. What was replaced at the time it came has the two times equal."""
    from pyspark.sql import functions as f

    until = f.lead(AT).over(_history(key_column))
    return (
        frame.withColumn(VALID_TO, until)
        .where(~f.col(DELETED))
        .withColumnRenamed(AT, VALID_FROM)
        .withColumn(IS_CURRENT, f.col(VALID_TO).isNull())
        .select(*_own(frame), VALID_FROM, VALID_TO, IS_CURRENT)
    )


def state(frame: DataFrame) -> DataFrame:
    """The newest events as rows: those of keys that are not removed."""
    from pyspark.sql import functions as f

    return frame.where(~f.col(DELETED)).drop(DELETED, AT, TOPIC, ORDER)


def changed_versions(table: DataFrame, frame: DataFrame, key_column: str) -> DataFrame:
    """The versions that `frame`, later events, adds to a table of versions or ends in it.

    Events that the table has already are left out: each version has the place of its event. So are
    those that a key's last version is later than, of another partition. That version says all of
    the history that matters: whether the key has a row, and since when.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    topic, key = f.col(f"{PLACE}.topic"), f.col(key_column)
    keys = frame.select(topic.alias("_topic"), key.alias("_key")).distinct()
    same_key = (table[f"{PLACE}.topic"] == keys["_topic"]) & (table[key_column] == keys["_key"])
    there = table.join(keys, same_key, "left_semi")
    place = [f.col(f"{PLACE}.{part}") for part in ("partition", "offset")]
    seeds = _seeds(_last(there, key_column, f.struct(IS_CURRENT, VALID_FROM, *place)), frame)
    both = seeds.withColumn("_known", f.lit(True))
    both = _placed(both.unionByName(frame.withColumn("_known", f.lit(False))), key_column)
    last = f.max(f.when(f.col("_known"), f.col(ORDER))).over(Window.partitionBy(TOPIC, key_column))
    both = both.withColumn("_last", last)
    new = f.col("_last").isNull() | (f.col(ORDER) > f.col("_last"))
    history = both.where(f.col("_known") | new).drop("_known", "_last")
    return versions(effective(history, key_column), key_column)


def _seeds(last: DataFrame, frame: DataFrame) -> DataFrame:
    """The last versions as the events they come from: one, and the tombstone if it has ended."""
    from pyspark.sql import functions as f

    own = _own(frame)
    events = f.array(
        *(
            f.struct(f.lit(deleted).alias(DELETED), f.col(time).alias(AT))
            for deleted, time in ((False, VALID_FROM), (True, VALID_TO))
        )
    )
    there = f.filter(events, lambda event: event[AT].isNotNull())
    return last.select(*own, f.explode(there).alias("_event")).select(*own, "_event.*")


def _own(frame: DataFrame) -> list[str]:
    """The columns of the table, without ours."""
    from kavka.spark_it.delta_tables import quoted

    left_out = (DELETED, AT, VALID_TO, TOPIC, ORDER)
    return [quoted(name) for name in frame.columns if name not in left_out]
