"""Spark's Kafka source in a batch or in a streaming query, and what a query has given, batch by
batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from support.spark import Stored, place, rows
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCHES_WITHIN_S: Final = 120

Options = Mapping[str, str]


def read(spark: SparkSession, bootstrap: str, options: Options) -> DataFrame:
    """A batch of Spark's Kafka source, with headers."""
    frame: DataFrame = _with(spark.read.format("kafka"), bootstrap, options).load()
    return frame


def stream(spark: SparkSession, bootstrap: str, options: Options) -> DataFrame:
    """A stream of Spark's Kafka source, with headers."""
    frame: DataFrame = _with(spark.readStream.format("kafka"), bootstrap, options).load()
    return frame


def _with(reader: Any, bootstrap: str, options: Options) -> Any:
    defaults = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true"}
    return reader.options(**{**defaults, **options})


def offsets(topic: str, by_partition: Mapping[int, int]) -> str:
    """Offsets, or times in ms, of a topic's partitions as Spark's options take them."""
    return json.dumps({topic: {str(number): offset for number, offset in by_partition.items()}})


class Query:
    """A streaming query that runs, and the records that each of its batches gave."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Stored]] = {}
        """By batch id: a batch that Spark runs again replaces what it gave before."""
        self.task_sizes: list[int] = []
        """How many records each task read, if the stream has a column `task`."""
        self._query: StreamingQuery | None = None

    @property
    def spark_query(self) -> StreamingQuery:
        """Spark's own."""
        assert self._query is not None
        return self._query

    @property
    def records(self) -> list[Stored]:
        """Of all batches, sorted by their places."""
        return sorted(chain.from_iterable(self.batches.copy().values()), key=place)

    @property
    def count(self) -> int:
        """How many records all batches gave."""
        return sum(self.batch_sizes)

    @property
    def batch_sizes(self) -> list[int]:
        """How many records each batch gave, in order."""
        return [len(batch) for _, batch in sorted(self.batches.copy().items())]

    def take(self, frame: DataFrame, number: int) -> None:
        """For `foreachBatch`."""
        self.batches[number] = rows(frame)
        if "task" in frame.columns:
            self.task_sizes += [task["count"] for task in frame.groupBy("task").count().collect()]

    def start(self, writer: DataStreamWriter, checkpoint: Path) -> None:
        """Start the query; `running` and `finished` do."""
        self._query = writer.option("checkpointLocation", str(checkpoint)).start()

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until a condition holds while the query runs; one that ends before is an error."""

        def held() -> bool:
            if condition():
                return True
            if not self.spark_query.isActive and not condition():
                raise AssertionError(f"the query ended before: {what}\n{self.detail()}")
            return False

        eventually(held, within_s=BATCHES_WITHIN_S, what=what, detail=self.detail)

    def wait_for_count(self, count: int) -> None:
        """Wait until so many records have come."""
        self.wait_for(lambda: self.count >= count, f"{count} records")

    def wait_for_records(self, expected: list[Stored]) -> None:
        """Wait until as many records have come as expected, and see that they are those."""
        self.wait_for_count(len(expected))
        assert self.records == sorted(expected, key=place)

    def wait_for_end(self) -> None:
        """Wait until the query has ended by itself; its failure is raised."""
        ended = self.spark_query.awaitTermination(BATCHES_WITHIN_S)
        assert ended, f"the query runs still\n{self.detail()}"

    def wait_for_failure(self) -> str:
        """Wait until the query has failed; what it says."""
        eventually(
            lambda: not self.spark_query.isActive,
            within_s=BATCHES_WITHIN_S,
            what="the query fails",
            detail=self.detail,
        )
        failure = self.spark_query.exception()
        assert failure is not None, f"the query has not failed\n{self.detail()}"
        return str(failure)

    def latest(self) -> dict[str, dict[str, int]]:
        """The last offsets that the query has seen on the broker, by topic and partition; empty
        before its first report."""
        progress = self.spark_query.lastProgress
        offsets = progress["sources"][0]["latestOffset"] if progress else None
        found: dict[str, dict[str, int]] = json.loads(offsets) if offsets else {}
        return found

    def detail(self) -> str:
        """What is known of it, for messages about failed tests."""
        query = self.spark_query
        return f"batches {self.batch_sizes}, {query.status}\n{query.lastProgress}"


@contextmanager
def running(frame: DataFrame, checkpoint: Path, **trigger: Any) -> Iterator[Query]:
    """A query on a stream of the Kafka source, stopped at the end; `trigger` is Spark's."""
    query = Query()
    query.start(_writer(frame, query, trigger), checkpoint)
    try:
        yield query
    finally:
        query.spark_query.stop()


def finished(frame: DataFrame, checkpoint: Path) -> Query:
    """A query that has read all there was (Trigger.AvailableNow)."""
    with running(frame, checkpoint, availableNow=True) as query:
        query.wait_for_end()
    return query


def failed(frame: DataFrame, checkpoint: Path) -> str:
    """What such a query says when it fails."""
    with running(frame, checkpoint, availableNow=True) as query:
        return query.wait_for_failure()


def _writer(frame: DataFrame, query: Query, trigger: Mapping[str, Any]) -> DataStreamWriter:
    writer = frame.writeStream.foreachBatch(query.take)
    return writer.trigger(**trigger) if trigger else writer


def wait_for_start(query: Query, checkpoint: Path) -> None:
    """Wait until a new query has decided from which offsets it reads."""
    first = checkpoint / "sources" / "0" / "0"
    query.wait_for(first.exists, "the query knows its first offsets")


def noted(checkpoint: Path, topic: str) -> dict[int, int]:
    """Up to where a query has committed a topic, by partition, as its checkpoint has it; empty
    before its first batch."""
    batches = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    if not batches:
        return {}
    last = (checkpoint / "offsets" / batches[-1].name).read_text().splitlines()[-1]
    found: dict[str, dict[str, int]] = json.loads(last)
    return {int(number): offset for number, offset in found[topic].items()}


def uncommit(checkpoint: str) -> None:
    """Make a checkpoint as it is when a query dies after a batch has been written, before its
    commit."""
    commits = Path(checkpoint, "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
