"""Topics as data frames: which, from where to where, and the form of the rows.

Rows of Spark's Kafka source have the columns key, value (binary), topic, partition, offset,
timestamp, timestampType and headers (array of structs of key and value, or null).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.offsets import Offsets, Positions, parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kavka.spark_it.common_options import ReadingOptions, StreamingOptions


def stream(
    spark: SparkSession, options: StreamingOptions, *, starting: str | None = None
) -> DataFrame:
    """The topics as a stream; `starting` wins over the option of that name."""
    source_options = _source(options) | position("starting", starting or options.starting)
    if options.max_offsets_per_batch:
        source_options["maxOffsetsPerTrigger"] = str(options.max_offsets_per_batch)
    return spark.readStream.format("kafka").options(**source_options).load()


def batch(
    spark: SparkSession,
    options: ReadingOptions,
    *,
    starting: str | None = None,
    ending: str = "latest",
) -> DataFrame:
    """The topics' records from `starting` (the option by default) up to `ending`, as they are now:
    forms as of the option `starting`."""
    source_options = _source(options)
    source_options |= position("starting", starting or options.starting) | position(
        "ending", ending
    )
    return spark.read.format("kafka").options(**source_options).load()


def latest_offsets(spark: SparkSession, options: ReadingOptions) -> Offsets:
    """The end of every partition of the topics.

    Asked by a stream from the end that writes nothing, whose progress has them: the only way to
    ask that every kind of session has.
    """
    source_options = _source(options) | position("starting", "latest")
    ends = spark.readStream.format("kafka").options(**source_options).load()
    query = ends.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.lastProgress
    return parsed(progress["sources"][0]["endOffset"]) if progress else {}


EARLIEST: Final = -2
LATEST: Final = -1
"""The first offset of a partition and the one behind the last, to Spark's Kafka source."""


def first_offsets(spark: SparkSession, options: ReadingOptions, ends: Positions) -> Positions:
    """Where the option `starting` begins in partitions that end there: offsets, EARLIEST or LATEST.

    Partitions that its offsets do not name have come later, and begin at their first record.
    """
    starting = options.starting
    named: Offsets = {}
    if starting.lstrip().startswith("{"):
        named = json.loads(starting)
    elif starting not in ("earliest", "latest"):
        return _offsets_at(spark, options, ends)
    other = LATEST if starting == "latest" else EARLIEST
    return {
        topic: {number: named.get(topic, {}).get(str(number), other) for number in partitions}
        for topic, partitions in ends.items()
    }


def _offsets_at(spark: SparkSession, options: ReadingOptions, ends: Positions) -> Positions:
    """Offsets of the first records from a time on; the ends where there are none.

    The source shows them only in the records that it reads from there, so it reads them all.
    """
    from pyspark.sql import functions as f

    found = {topic: dict(partitions) for topic, partitions in ends.items() if partitions}
    if not found:
        return {}
    source_options = _source(options) | position("starting", options.starting)
    for name in ("subscribe", "subscribePattern"):
        source_options.pop(name, None)
    source_options["assign"] = json.dumps(
        {topic: list(numbers) for topic, numbers in found.items()}
    )
    records = spark.read.format("kafka").options(**source_options).load()
    firsts = records.groupBy("topic", "partition").agg(f.min("offset").alias("first"))
    for row in firsts.collect():
        found[row["topic"]][row["partition"]] = row["first"]
    return found


def _source(options: ReadingOptions) -> dict[str, str]:
    source_options = {
        **options.kafka_options(),
        "kafka.isolation.level": options.isolation_level,
        "includeHeaders": "true",
        "failOnDataLoss": str(options.fail_on_data_loss).lower(),
    }
    if options.topic_pattern is not None:
        source_options["subscribePattern"] = options.topic_pattern
    else:
        source_options["subscribe"] = ",".join(options.topics)
    if options.min_partitions:
        source_options["minPartitions"] = str(options.min_partitions)
    return source_options


def position(side: str, text: str) -> dict[str, str]:
    """The options of Spark's Kafka source for one side, "starting" or "ending".

    `text` is earliest, latest, a time or offsets as JSON. A time after a partition's last record
    is that partition's end, for either side.
    """
    if text in ("earliest", "latest"):
        if side == "ending" and text == "earliest":
            raise SparkError("ending: earliest is before every record")
        return {f"{side}Offsets": text}
    if text.lstrip().startswith("{"):
        try:
            json.loads(text)
        except ValueError as failure:
            raise SparkError(f"{side}: {text!r} is not JSON: {failure}") from failure
        return {f"{side}Offsets": text}
    source_options = {f"{side}Timestamp": str(timestamp_ms(text, side))}
    if side == "starting":  # the other side takes the end by itself
        source_options["startingOffsetsByTimestampStrategy"] = "latest"
    return source_options


def timestamp_ms(text: str, option: str) -> int:
    """Milliseconds since 1970 of a time in ISO 8601; UTC when it names no offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SparkError(
            f"{option}: {text!r} is not earliest, latest, a time (2026-01-31T12:00:00Z) or "
            'offsets ({"topic": {"0": 23}})'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
