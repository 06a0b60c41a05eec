"""Records in windows of event time: from what Spark's Kafka source gives to one row a window and
group.

    records ─ judged ─┬─ rejects        what does not parse, or has no time
                      └─ aggregated     window_start, window_end, the groups, the aggregates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.spark_it import expressions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.parsing import PARSED, PLACE, REASON, VALUE, Parser

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

START: Final = "window_start"
END: Final = "window_end"

KEY: Final = "key"
"""The record's key as text, unless the value has a field of that name."""

TIME: Final = "_time"
RAW_VALUE: Final = "_raw_value"
WHY: Final = "_why"
WINDOW: Final = "_window"
"""Columns of ours beside those of the value."""

OURS: Final = (START, END, TIME, RAW_VALUE, WHY, WINDOW)

JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How rows are written as JSON: nulls too, and times to the microsecond, as Spark has them: by
itself it cuts them to milliseconds, so that two groups might share a key."""

REJECTS: Final = "rejects"
"""In the summary: how many records are in no window because they do not parse or have no time."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Which windows: of a fixed length, one after the other or every `slide`; or sessions, which
    end when nothing has come for `session_gap`. Lengths of time as Spark takes them."""

    length: str | None
    slide: str | None
    session_gap: str | None
    watermark: str | None

    def column(self) -> Column:
        from pyspark.sql import functions as f

        if self.session_gap is not None:
            return f.session_window(TIME, self.session_gap).alias(WINDOW)
        assert self.length is not None  # checked with the options
        return f.window(TIME, self.length, self.slide).alias(WINDOW)


def judged(records: DataFrame, parser: Parser, event_time: str) -> DataFrame:
    """Each record with the columns of its value, `kafka`, `key`, and ours. How many have a reason
    to be rejected is observed as `rejects`."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    parsed = parser.judge(records)
    fields = parsed.schema[PARSED].dataType.fieldNames()  # type: ignore[attr-defined]
    taken = [name for name in fields if name.casefold() in OURS]
    if taken:
        raise SparkError(f"the schema has a field {taken[0]}, a name that this pipeline needs")
    flat = parsed.select(
        PLACE, f"{PARSED}.*", f.col(VALUE).alias(RAW_VALUE), f.col(REASON).alias(WHY)
    )
    if KEY not in (name.casefold() for name in fields):
        flat = flat.withColumn(KEY, f.col(f"{PLACE}.key").cast("string"))
    try:
        timed = flat.withColumn(TIME, f.expr(event_time))
        kind = timed.schema[TIME].dataType
    except PySparkException as failure:
        reason = expressions.first_line(failure)
        raise SparkError(f"event_time: {event_time!r}: {reason}") from failure
    if not isinstance(kind, TimestampType):
        raise SparkError(
            f"event_time: {event_time!r} is of type {kind.simpleString()}; make a timestamp of it, "
            f"as timestamp_millis({event_time}) or to_timestamp({event_time})"
        )
    late = f.when(f.col(TIME).isNull(), f.lit(f"has no time: {event_time} is null"))
    return timed.withColumn(WHY, f.coalesce(WHY, late)).observe(
        "records", f.count(WHY).alias(REJECTS)
    )


def rejects(found: DataFrame) -> DataFrame:
    """`kafka`, `value` (the bytes) and `reason` of the judged records that are in no window."""
    from pyspark.sql import functions as f

    return found.where(f.col(WHY).isNotNull()).select(
        PLACE, f.col(RAW_VALUE).alias(VALUE), f.col(WHY).alias(REASON)
    )


def aggregated(
    found: DataFrame, windows: Windows, group_by: Sequence[str], aggregates: Sequence[str]
) -> tuple[DataFrame, list[str]]:
    """One row a window and group, and the names of the group's columns."""
    from pyspark.sql import functions as f

    rows = found.where(f.col(WHY).isNull()).drop(RAW_VALUE, WHY)
    groups = expressions.grouping(rows, group_by, "group_by")
    values = expressions.aggregates(rows, aggregates, "aggregates")
    if not values:
        raise SparkError('aggregates: give at least one, such as "count(*) as events"')
    names = [START, END, *(each.name for each in (*groups, *values))]
    expressions.check_distinct(names, "group_by and aggregates")
    if windows.watermark is not None:
        rows = rows.withWatermark(TIME, windows.watermark)
    grouped = rows.groupBy(windows.column(), *(each.column for each in groups))
    window = f.col(WINDOW)
    frame = grouped.agg(*(each.column for each in values)).select(
        window["start"].alias(START), window["end"].alias(END), *names[2:]
    )
    return frame, [each.name for each in groups]


def messages(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Rows as records of a topic: the columns of `key` as JSON, and all of them."""
    from pyspark.sql import functions as f

    text = f.to_json(f.struct(*key), JSON) if key else f.lit("{}")
    return frame.select(text.alias("key"), f.to_json(f.struct("*"), JSON).alias("value"))
