"""The insides of the pipeline `replay`: its plan, made by Spark, and the tasks that write.

How far a replay is stands in the offsets of its consumer group: for each partition of the target
topic the number of records that are written, and in the metadata the place of the last one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kavka.spark_it.clients import administered
from kavka.spark_it.errors import SparkError
from kavka.spark_it.running import REASON_CHARACTERS_MAX, Stopped, run_until_signal
from kavka.spark_it.shipping import ship_code
from kavka.spark_it.writing import (
    KEEP_EVERY_S,
    Done,
    Task,
    done_of,
    group_offsets,
    murmur2_partition,
    place_of,
    stable_done_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kavka.spark_it.progress import Metrics
    from kavka.spark_it.replay_options import Options

REPORT_EVERY_S: Final = 2.0
"""Between two lines of progress."""

MS_PER_S: Final = 1000

SALTS_PER_WRITER: Final = 20
"""Numbers tried for each task, to find one that Spark's hash gives to it."""


@dataclass(frozen=True)
class Plan:
    """What is to be written."""

    rows: DataFrame
    """With the columns `target` (partition), `n` (number in it, from 1) and `due` (seconds from the
    start) besides those of the record; only what is left."""
    records: int
    """All that the table has."""
    left: int
    counts: Mapping[int, int]
    """Of all records, by target partition."""
    done: Mapping[int, Done]
    """Of all partitions of the topic."""
    writers: int
    seconds: float
    """How long writing takes at the chosen speed; 0 without one."""


class Replay:
    """One run."""

    def __init__(
        self,
        spark: SparkSession,
        options: Options,
        settings: Mapping[str, Any],
        say: Callable[[str], None],
        metrics: Metrics | None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._settings = dict(settings)
        self._say = say
        self._metrics = metrics
        self._partitions = self._check_topic()
        ship_code(spark)

    def plan(self, records: DataFrame) -> Plan:
        """Number the records, see what is written, and when the others are due."""
        from pyspark.sql import functions as f

        numbered = self._numbered(records)
        null_header = f.expr("exists(headers, h -> h.value is null)")
        stats = numbered.groupBy("target").agg(
            f.count("*").alias("count"),
            f.min("timestamp").alias("oldest"),
            f.max(f.coalesce(null_header, f.lit(False))).alias("null_header"),
            f.max(f.coalesce("twin", f.lit(False))).alias("twin"),
            f.max(f.expr("partition is null or offset is null")).alias("no_place"),
        )
        found = {row["target"]: row for row in stats.collect()}
        self._check_targets(found)
        done = self._done()
        counts = {target: row["count"] for target, row in found.items()}
        self._check_done(numbered, done, counts)
        left = {target: count - done[target].n for target, count in counts.items()}
        total = sum(left.values())
        due, seconds = numbered, 0.0
        if total:
            self._warn(min(row["oldest"] or 0 for row in found.values()))
            due, seconds = self._due(numbered, done, left)
        return Plan(
            rows=due,
            records=sum(counts.values()),
            left=total,
            counts=counts,
            done=done,
            writers=self._writers(len(found)),
            seconds=seconds,
        )

    def write(self, plan: Plan) -> None:
        """Write what is left. SparkError when a task fails or a signal ends it; what is committed
        is written."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        options = self._options
        task = Task(
            settings=self._settings,
            topic=options.topic,
            partitions=self._partitions,
            group=options.group,
            original_timestamps=options.timestamps == "original",
            transaction_records=options.transaction_records,
            transaction_seconds=options.transaction_seconds,
            writers=plan.writers,
            began=time.time(),
            targets=sorted(plan.counts),
        )
        rows = self.spread(plan)
        self._announce(plan)
        context, tag = self._spark.sparkContext, f"kavka-replay-{uuid.uuid4()}"

        def job() -> None:
            context.addJobTag(tag)  # of this thread
            rows.foreachPartition(task)

        try:
            with self._reporting(plan):
                run_until_signal([job], lambda: context.cancelJobsWithTag(tag))
        except Stopped:
            raise SparkError("stopped; the same command goes on where it was") from None
        except (PySparkException, Py4JError) as failure:
            raise SparkError(
                f"writing to {options.topic} failed; the same command goes on where it was: "
                f"{_task_reason(str(failure))}"
            ) from failure

    def _numbered(self, records: DataFrame) -> DataFrame:
        """`target`, `at` (the time that decides the order and the pace), and `n`."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        own = Window.partitionBy("topic", "partition").orderBy("offset")
        at = f.max(f.coalesce("timestamp", f.lit(0))).over(own)
        timed = (
            records.withColumn("twin", f.lag("offset").over(own) == f.col("offset"))
            .withColumn("at", at)
            .withColumn("target", self._target())
        )
        order = Window.partitionBy("target").orderBy("at", "topic", "partition", "offset")
        return timed.withColumn("n", f.row_number().over(order))

    def _target(self) -> Column:
        from pyspark.sql import functions as f

        if self._options.partitions == "same":
            return f.col("partition")
        count = self._partitions

        @f.udf("int")
        def by_key(key: bytes | None) -> int | None:
            return murmur2_partition(key, count)

        return f.coalesce(by_key("key"), f.pmod("partition", f.lit(count)).cast("int"))

    def _due(
        self, numbered: DataFrame, done: Mapping[int, Done], left: Mapping[int, int]
    ) -> tuple[DataFrame, float]:
        """What is left, with the column `due`, and how long it takes."""
        from pyspark.sql import functions as f

        options = self._options
        behind = self._of_target({target: progress.n for target, progress in done.items()}, left)
        rows = numbered.where(f.col("n") > behind)
        if options.rate:
            seconds = sum(left.values()) / options.rate
            share = (f.col("n") - behind) / self._of_target(left, left)
            return rows.withColumn("due", share * seconds), seconds
        if options.speed:
            first, last = rows.agg(f.min("at"), f.max("at")).collect()[0]
            due = (f.col("at") - first) / (MS_PER_S * options.speed)
            return rows.withColumn("due", due), (last - first) / (MS_PER_S * options.speed)
        return rows.withColumn("due", f.lit(0.0)), 0.0

    def _of_target(self, numbers: Mapping[int, int], targets: Iterable[int]) -> Column:
        """The number of a row's target."""
        from pyspark.sql import functions as f

        pairs = [f.lit(number) for target in targets for number in (target, numbers[target])]
        return f.create_map(*pairs)[f.col("target")]

    def spread(self, plan: Plan) -> DataFrame:
        """As many Spark partitions as writers, each with the same number of target partitions, in
        the order of writing."""
        from pyspark.sql import functions as f

        salts = f.array(*[f.lit(salt) for salt in self._salts(plan.writers)])
        ranks = {target: rank for rank, target in enumerate(sorted(plan.counts))}
        writer = self._of_target(ranks, ranks) % plan.writers
        rows = plan.rows.withColumn("writer", salts[writer])
        columns = ["target", "n", "due", "timestamp", "key", "value", "headers"]
        columns += ["topic", "partition", "offset"]
        spread = rows.repartition(plan.writers, "writer").select(columns)
        return spread.sortWithinPartitions("due", "n", "target")

    def _salts(self, writers: int) -> list[int]:
        """A number for each Spark partition that `repartition` puts there: hashing the writers'
        own numbers would put several into one and leave others empty."""
        from pyspark.sql import functions as f

        found: dict[int, int] = {}
        tried = SALTS_PER_WRITER * writers
        while len(found) < writers:
            numbers = self._spark.range(tried).select(f.col("id").cast("int").alias("salt"))
            place = f.pmod(f.hash("salt"), f.lit(writers))
            firsts = numbers.groupBy(place.alias("place")).agg(f.min("salt").alias("salt"))
            found = {row["place"]: row["salt"] for row in firsts.collect()}
            tried *= 2
        return [found[place] for place in range(writers)]

    def _writers(self, targets: int) -> int:
        cores = self._spark.sparkContext.defaultParallelism
        return max(1, min(self._options.writers or cores, targets))

    def _done(self) -> dict[int, Done]:
        """How far earlier runs came, by partition; none of their tasks can write any more."""
        from kafka import KafkaProducer

        done = self._committed()
        writers = max(progress.writers for progress in done.values())
        for number in range(writers):
            named = self._settings | {"transactional_id": f"{self._options.group}-{number}"}
            with closing(KafkaProducer(**named)) as producer:
                producer.init_transactions()  # ends the transaction that was open
        if self._options.restart:
            return dict.fromkeys(done, Done())
        return self._stable() if writers else done

    def _announce(self, plan: Plan) -> None:
        """Say in the group's offsets, before a task begins, how many may have to be shut out."""
        done = {
            partition: Done(progress.n, progress.place, plan.writers)
            for partition, progress in plan.done.items()
        }
        offsets = group_offsets(self._options.topic, done)
        group = self._options.group
        administered(self._settings, lambda admin: admin.alter_group_offsets(group, offsets))

    def _committed(self) -> dict[int, Done]:
        return done_of(
            self._settings, self._options.group, self._options.topic, range(self._partitions)
        )

    def _stable(self) -> dict[int, Done]:
        return stable_done_of(
            self._settings, self._options.group, self._options.topic, range(self._partitions)
        )

    def _keep(self, done: Mapping[int, Done], counts: Mapping[int, int]) -> None:
        """Commit the offsets of partitions that are finished again, so that the broker does not
        forget them; the others are kept by their tasks, which may be changing them."""
        finished = {
            t: progress
            for t, progress in done.items()
            if progress.n and progress.n == counts.get(t, 0)
        }
        offsets = group_offsets(self._options.topic, finished)
        group = self._options.group
        if offsets:
            administered(self._settings, lambda admin: admin.alter_group_offsets(group, offsets))

    def _reporting(self, plan: Plan) -> _Reporting:
        keep_at = time.monotonic() + KEEP_EVERY_S

        def report() -> None:
            nonlocal keep_at
            done = self._committed()
            if time.monotonic() >= keep_at:
                self._keep(done, plan.counts)
                keep_at = time.monotonic() + KEEP_EVERY_S
            left = {target: count - done[target].n for target, count in plan.counts.items()}
            if self._metrics is not None:
                self._metrics.set_lag({(self._options.topic, t): n for t, n in left.items()})
            written = plan.left - sum(left.values())
            self._say(f"replay: {written:,} of {plan.left:,} records written")

        return _Reporting(report, self._say)

    def _check_topic(self) -> int:
        """The number of the topic's partitions."""
        topic = self._options.topic
        (found,) = administered(self._settings, lambda admin: admin.describe_topics([topic]))
        if not found["partitions"]:
            raise SparkError(f"the topic {topic} does not exist: create it first (kavka topics)")
        return len(found["partitions"])

    def _check_targets(self, found: Mapping[int, Row]) -> None:
        topic, count = self._options.topic, self._partitions
        if any(row["no_place"] for row in found.values()):
            raise SparkError(
                "the table has rows whose partition or offset is null: leave them out with where, "
                "or say in columns where the table has them"
            )
        wrong = [target for target in found if not 0 <= target < count]
        if wrong:
            raise SparkError(
                f"the table has records of partition {max(wrong)}, and {topic} has {count} "
                f"partitions: give {topic} more, or choose partitions=key (--partitions key)"
            )
        if any(row["twin"] for row in found.values()):
            raise SparkError(
                "the table has several rows of one topic, partition and offset, so that their "
                "order is not known: choose with where, or say in columns what their offset is"
            )
        if self._options.null_headers == "refuse" and any(
            row["null_header"] for row in found.values()
        ):
            raise SparkError(
                "the table has headers whose value is null, which kafka-python cannot write: "
                "null_headers=empty (--null-headers empty) writes empty values"
            )

    def _check_done(
        self, numbered: DataFrame, done: Mapping[int, Done], counts: Mapping[int, int]
    ) -> None:
        """Raise SparkError unless the last record written is where it was in the table."""
        from pyspark.sql import functions as f

        begun = {target: progress for target, progress in done.items() if progress.n}
        if not begun:
            return
        lacking = {
            target: progress
            for target, progress in begun.items()
            if progress.n > counts.get(target, 0)
        }
        there = numbered.where(f.col("target").isin(*begun))
        last = there.where(
            f.col("n") == self._of_target({t: progress.n for t, progress in begun.items()}, begun)
        )
        places = {
            row["target"]: place_of(row)
            for row in last.select("target", "topic", "partition", "offset").collect()
        }
        for target, progress in begun.items():
            if target in lacking or places.get(target) != progress.place:
                raise SparkError(
                    f"the table is not the one that {self._options.group} began with: record "
                    f"{progress.n:,} of partition {target} was {progress.place}, and is "
                    f"{places.get(target, 'not there')}. Choose another name, or begin anew with "
                    "restart=true"
                )

    def _warn(self, oldest_ms: int) -> None:
        """Say so if the topic will not keep the timestamps, or the records because of them."""
        from kafka.admin import ConfigResource, ConfigResourceType

        topic = self._options.topic
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = administered(
            self._settings, lambda admin: admin.describe_configs([resource], config_filter="all")
        )
        configs = {name: config["value"] for name, config in found["topic"][topic].items()}
        if self._options.timestamps != "original":
            return
        if configs.get("message.timestamp.type") == "LogAppendTime":
            self._say(f"replay: {topic} has LogAppendTime: timestamps will be those of writing")
            return
        kept_ms = int(configs.get("retention.ms") or -1)
        deletes = "delete" in configs.get("cleanup.policy", "")
        if deletes and 0 <= kept_ms < time.time() * MS_PER_S - oldest_ms:
            self._say(
                f"replay: retention.ms of {topic} is {kept_ms}, and there are older records: the "
                "broker may delete them as soon as they are written"
            )


def _task_reason(text: str) -> str:
    """What a task raised: the line behind the traceback that Spark puts into its own error."""
    _, found, traceback = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return (lines[0] if found and lines else text)[:REASON_CHARACTERS_MAX]


class _Reporting:
    """Calls `report` from time to time while its block runs. What goes wrong in it is said and
    stops nothing: the records do not depend on it."""

    def __init__(self, report: Callable[[], None], say: Callable[[str], None]) -> None:
        self._report = report
        self._say = say
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replay-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        from kafka.errors import KafkaError

        while not self._ended.wait(REPORT_EVERY_S):
            try:
                self._report()
            except KafkaError as failure:
                self._say(f"replay: no progress to report: {failure!r}")
