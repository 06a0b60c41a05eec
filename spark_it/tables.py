"""Tables that a stream writes batch by batch, each batch once: Delta Lake and Parquet.

A batch that was written and whose checkpoint was not (the query died in between) is written again
under the same number when the query goes on. Delta skips a number that it has had, in the same
transaction as the data. Parquet has no transactions: a batch is a directory of its own
(`kafka_batch=<query>-<number>/`), which the second attempt overwrites whole; its `_SUCCESS` file
says that it is complete. So any reader of Parquet sees each record once, without Spark's metadata.

Batches are numbered within a checkpoint. The query's id, which is new for a new checkpoint, keeps
the numbers of two checkpoints apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kavka.spark_it import checkpoints, delta_tables
from kavka.spark_it.checkpoints import Span
from kavka.spark_it.delta_tables import table_name
from kavka.spark_it.errors import SparkError
from kavka.spark_it.offsets import Offsets
from kavka.spark_it.parsing import PLACE
from kavka.spark_it.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

BATCH: Final = "kafka_batch"
"""The column of Parquet tables that says which batch wrote a row; the directories' name."""

QUERY_ID_CHARACTERS: Final = 8

PLACE_COLUMNS: Final = (f"{PLACE}.topic", f"{PLACE}.partition", f"{PLACE}.offset")


class BatchId(NamedTuple):
    """A batch of one checkpoint."""

    query: str
    """Id of the checkpoint's query, a UUID."""
    number: int
    span: Span | None = None
    """Which records it has, if they are those of a stream; a table of Delta keeps it."""

    @property
    def series(self) -> str:
        """What tells its query from others in the names of directories."""
        return self.query[:QUERY_ID_CHARACTERS]

    @property
    def directory(self) -> str:
        """The value of the column `kafka_batch`; in order for one query."""
        return f"{self.series}-{self.number:010d}"


class Table(Protocol):
    """What the sink needs of a table. Paths are of any file system that Spark knows."""

    path: str

    def exists(self) -> bool: ...

    def read(self) -> DataFrame | None:
        """Its rows, of whole batches only; None when there is none yet."""

    def places(self) -> DataFrame | None:
        """Topic, partition and offset of its rows; None when there is none yet."""

    def newest_batches(self) -> dict[str, BatchId]:
        """The last whole batch of each query, by `BatchId.series`, as far as the table knows.
        Delta knows none of backfills, and has the newest first."""

    def newest_batch(self, query: str) -> BatchId | None:
        """The last whole batch of a query; None when the table knows of none."""

    def topics(self, batch: BatchId) -> set[str]:
        """The topics of one of these batches."""

    def discard(self, batch: BatchId) -> None:
        """Remove a batch, whatever of it there is, so that it can be written again."""

    def write(self, rows: DataFrame, batch: BatchId) -> None:
        """Write a batch; again under the same id writes nothing twice."""

    def compact(self) -> str:
        """Rewrite small files into large ones, but for the newest batch, which may be written
        again. Returns a line that says what was done."""


def open_table(spark: SparkSession, kind: str, path: str, partition_by: Sequence[str]) -> Table:
    """The table of format `kind` at `path`; it need not exist yet."""
    if kind == "delta":
        return DeltaTable(spark, path, partition_by)
    return ParquetTable(spark, path, partition_by)


class DeltaTable:
    """A table of Delta Lake."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str]) -> None:
        self.path = path
        self._spark = spark
        self._partition_by = list(partition_by)
        self._discarded: BatchId | None = None  # it may be written again, though Delta had it

    def exists(self) -> bool:
        return delta_tables.properties(self._spark, self.path) is not None

    def read(self) -> DataFrame | None:
        return self._spark.read.format("delta").load(self.path) if self.exists() else None

    def places(self) -> DataFrame | None:
        rows = self.read()
        return None if rows is None else rows.select(*PLACE_COLUMNS)

    def write(self, rows: DataFrame, batch: BatchId) -> None:
        writer = rows.write.format("delta").mode("append").option("userMetadata", _details(batch))
        if batch != self._discarded:
            writer = writer.option("txnAppId", f"kavka-{batch.query}")
            writer = writer.option("txnVersion", str(batch.number))
        writer.partitionBy(*self._partition_by).save(self.path)

    def newest_batches(self) -> dict[str, BatchId]:
        found: dict[str, BatchId] = {}
        for batch in self._history(None):
            found.setdefault(batch.series, batch)
        return found

    def newest_batch(self, query: str) -> BatchId | None:
        for limit in (RECENT_VERSIONS, None):  # the whole history may be long
            for batch in self._history(limit):
                if batch.query == query:
                    return batch
        return None

    def _history(self, limit: int | None) -> Iterator[BatchId]:
        """The batches of streams that it knows, the newest first."""
        if not self.exists():
            return
        last = "" if limit is None else f" LIMIT {limit}"
        versions = self._spark.sql(f"DESCRIBE HISTORY {table_name(self.path)}{last}")
        for row in versions.where(f"userMetadata LIKE '{DETAILS_BEGIN}%'").collect():
            details = json.loads(row["userMetadata"])["kavka"]
            if "ends" in details:  # else it is none of a stream
                span = Span(details["starts"], details["ends"])
                yield BatchId(details["query"], details["batch"], span)

    def topics(self, batch: BatchId) -> set[str]:
        return set() if batch.span is None else set(batch.span.ends)

    def discard(self, batch: BatchId) -> None:
        if batch.span is not None and self.exists():
            condition = between(*batch.span, f"`{PLACE}`.")
            self._spark.sql(f"DELETE FROM {table_name(self.path)} WHERE {condition}").collect()
            self._discarded = batch

    def compact(self) -> str:
        (done,) = self._spark.sql(f"OPTIMIZE {table_name(self.path)}").collect()
        row = done["metrics"]
        return (
            f"{self.path}: {row['numFilesRemoved']:,} files are {row['numFilesAdded']:,} now; the "
            "old ones are still there for readers of older versions, until VACUUM"
        )


RECENT_VERSIONS: Final = 20
"""Of a table of Delta: where its last batch is looked for first."""

DETAILS_BEGIN: Final = '{"kavka": '


def _details(batch: BatchId) -> str:
    """What Delta's history says of a batch."""
    details: dict[str, object] = {"query": batch.query, "batch": batch.number}
    if batch.span is not None:
        details |= batch.span._asdict()
    return json.dumps({"kavka": details})


def between(starts: Offsets, ends: Offsets, place: str) -> str:
    """A condition of SQL: rows of the partitions that `ends` names, before these offsets and not
    before those in `starts`. `place` precedes the columns topic, partition and offset."""
    parts = [
        f"({place}topic = {_quoted(topic)} and {place}partition = {partition} "
        f"and {place}offset >= {starts.get(topic, {}).get(partition, 0)} "
        f"and {place}offset < {end})"
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    ]
    return " or ".join(parts) or "false"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class ParquetTable:
    """Files of Parquet, a directory a batch; below it the directories of `partition_by`."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        partition_by: Sequence[str],
        files: Files | None = None,
    ) -> None:
        self.path = path
        self._spark = spark
        self._files = files if files is not None else Files(spark)
        self._partition_by = list(partition_by)
        self._finish_compaction()

    def exists(self) -> bool:
        return bool(self.batches())

    def read(self) -> DataFrame | None:
        """The complete batches, with the columns of all of them. What a batch without `_SUCCESS`
        holds will be written again. SparkError if a column has types that have none in common."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
        from pyspark.errors import AnalysisException

        whole = [self._directory(name) for name in self.batches()]
        try:
            return self._reader().parquet(*whole) if whole else None
        except AnalysisException as failure:
            if failure.getCondition() == "UNABLE_TO_INFER_SCHEMA":
                return None  # batches without rows have no files, if there are columns to part by
            raise
        except Py4JJavaError as failure:  # PySpark has no exception of its own for it
            if "CANNOT_MERGE_SCHEMAS" not in str(failure.java_exception):
                raise
            raise SparkError(
                f"{self.path}: a column has different types in its batches"
            ) from failure

    def _reader(self) -> DataFrameReader:
        # without mergeSchema the columns are those of one batch
        return self._spark.read.option("basePath", self.path).option("mergeSchema", "true")

    def places(self) -> DataFrame | None:
        whole = [self._directory(name) for name in self.batches()]
        rows = self._reader().schema(PLACES).parquet(*whole) if whole else None
        return None if rows is None else rows.select(*PLACE_COLUMNS)

    def write(self, rows: DataFrame, batch: BatchId) -> None:
        directory = self._directory(batch.directory)
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.partitionBy(*self._partition_by).parquet(directory)

    def remove(self, names: Iterable[str]) -> None:
        """Remove batches, by the value of `kafka_batch`."""
        for name in names:
            self._files.delete(self._directory(name))

    def batches(self) -> list[str]:
        """The complete batches, by the value of `kafka_batch`."""
        return sorted(name for name in self._names() if self._is_complete(name))

    def topics(self, batch: BatchId) -> set[str]:
        rows = self._reader().schema(PLACES).parquet(self._directory(batch.directory))
        return {row.topic for row in rows.select(f"{PLACE}.topic").distinct().collect()}

    def discard(self, batch: BatchId) -> None:
        self.remove([batch.directory])

    def remove_incomplete(self, kept: str | None = None) -> None:
        """Remove what batches left that were not written whole and will not be written again: to
        other readers their files are data. Those of the series `kept` stay."""
        names = [name for name in self._names() if not self._is_complete(name)]
        self.remove(name for name in names if name.rpartition("-")[0] != kept)

    def newest_batches(self) -> dict[str, BatchId]:
        """They may be written again, and are never compacted."""
        found = {}
        for name in self.batches():  # in order
            if not name.startswith(COMPACTED):
                series, _, number = name.rpartition("-")
                found[series] = BatchId(series, int(number))
        return found

    def newest_batch(self, query: str) -> BatchId | None:
        return self.newest_batches().get(BatchId(query, 0).series)

    def compact(self) -> str:
        """All batches that cannot be written again become one.

        The new directory is written beside the table, under a name that readers skip. Then the old
        ones are removed and it takes its place: readers see records missing in between, never
        twice. A file says what is to be removed, so that the next run ends what a kill cut short.
        """
        newest = {batch.directory for batch in self.newest_batches().values()}
        names = [name for name in self.batches() if name not in newest]
        batches = [name for name in names if not name.startswith(COMPACTED)]
        try:
            everything = self._as_written() if len(names) > 1 else None
        except SparkError as failure:
            return f"{self.path}: not compacted: {failure}"
        if everything is None:
            return f"{self.path}: nothing to compact"
        rows = everything.where(f"{BATCH} in ({', '.join(map(_quoted, names))})").drop(BATCH)
        spread = rows.repartition(*self._partition_by) if self._partition_by else rows.coalesce(1)
        order = [*self._partition_by, f"{PLACE}.topic", f"{PLACE}.partition", f"{PLACE}.offset"]
        compacted = spread.sortWithinPartitions(*order).write.mode("overwrite")
        compacted = compacted.option("partitionOverwriteMode", "static")
        compacted.partitionBy(*self._partition_by).parquet(f"{self.path}/{COMPACTING}")
        plan = {"remove": names, "name": COMPACTED + batches[-1]}
        self._files.write_text(f"{self.path}/{COMPACTION}", json.dumps(plan))
        self._finish_compaction()
        return f"{self.path}: {len(names):,} batches are one directory now"

    def _as_written(self) -> DataFrame | None:
        """Its rows, with the columns of `partition_by` as the texts in their directories' names:
        Spark takes those for numbers and dates where it can, and 01234 for 1234."""
        from pyspark.sql.types import StringType, StructField, StructType

        rows = self.read()
        if rows is None:
            return None
        columns = [
            StructField(column.name, StringType())
            if column.name in (BATCH, *self._partition_by)
            else column
            for column in rows.schema
        ]
        whole = [self._directory(name) for name in self.batches()]
        return self._reader().schema(StructType(columns)).parquet(*whole)

    def _finish_compaction(self) -> None:
        """End a compaction whose new directory is complete."""
        written = f"{self.path}/{COMPACTION}"
        text = self._files.read_text(written)
        if text is None:
            return
        plan = json.loads(text)
        target = f"{self.path}/{COMPACTING}"
        if self._files.exists(target):  # else it has taken its place already
            self.remove(plan["remove"])
            self._files.rename(target, self._directory(plan["name"]))
        self._files.delete(written)

    def _names(self) -> list[str]:
        return [name.removeprefix(PREFIX) for name in batch_directories(self._files, self.path)]

    def _is_complete(self, name: str) -> bool:
        return is_complete(self._files, self._directory(name))

    def _directory(self, name: str) -> str:
        return f"{self.path}/{PREFIX}{name}"


PREFIX: Final = f"{BATCH}="
PLACES: Final = f"{PLACE} struct<topic: string, partition: int, offset: bigint>"
"""What every table has, whatever columns its values have."""

COMPACTED: Final = "compacted-"
"""Begins the value of `kafka_batch` for what has been compacted."""

COMPACTING: Final = "_compacting"
COMPACTION: Final = "_compaction.json"
"""Names that begin with `_` are no data, to Spark and other readers of Parquet."""


class Files:
    """The file systems that Spark's JVM knows, by paths with or without a scheme."""

    def __init__(self, spark: SparkSession) -> None:
        if is_connect(spark):
            raise SparkError(
                "tables of Parquet need a Spark session of this process; with Spark Connect use "
                "Delta (table_format)"
            )
        self._jvm: Any = spark._jvm
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def _at(self, path: str) -> tuple[Any, Any]:
        there = self._jvm.org.apache.hadoop.fs.Path(path)
        return there.getFileSystem(self._configuration), there

    def exists(self, path: str) -> bool:
        system, there = self._at(path)
        return bool(system.exists(there))

    def list(self, path: str) -> list[str]:
        """The names in a directory; none if it does not exist."""
        system, there = self._at(path)
        if not system.exists(there):
            return []
        return [status.getPath().getName() for status in system.listStatus(there)]

    def delete(self, path: str) -> None:
        system, there = self._at(path)
        system.delete(there, True)

    def rename(self, source: str, target: str) -> None:
        system, there = self._at(source)
        if not system.rename(there, self._jvm.org.apache.hadoop.fs.Path(target)):
            raise SparkError(f"{source} cannot be renamed to {target}")

    def read_text(self, path: str) -> str | None:
        """A small file's text; None if it does not exist."""
        system, there = self._at(path)
        if not system.exists(there):
            return None
        stream = system.open(there)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file whole: under another name first, then renamed."""
        system, there = self._at(path + ".tmp")
        stream = system.create(there, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.rename(path + ".tmp", path)


def batch_directories(files: Files, path: str) -> list[str]:
    """The names of the directories of a Parquet table's batches, complete or not."""
    return [name for name in files.list(path) if name.startswith(PREFIX)]


def is_complete(files: Files, directory: str) -> bool:
    """Whether the batch in a directory was written whole."""
    return files.exists(f"{directory}/_SUCCESS")


def batch_id(
    spark: SparkSession, checkpoint: str, number: int, *, with_span: bool = False
) -> BatchId:
    """The id of a batch that Spark has given to be written; its `span` is read on request."""
    query = checkpoints.query_id(spark, checkpoint)
    assert query is not None  # Spark writes it before the first batch
    span = checkpoints.span(spark, checkpoint, number) if with_span else None
    return BatchId(query, number, span)
