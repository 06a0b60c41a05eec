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
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kavka.spark_it import delta_tables
from kavka.spark_it.delta_tables import table_name
from kavka.spark_it.errors import SparkError
from kavka.spark_it.offsets import Offsets, Positions, parsed
from kavka.spark_it.parsing import PLACE
from kavka.spark_it.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = "kafka_batch"
"""The column of Parquet tables that says which batch wrote a row; the directories' name."""

QUERY_ID_CHARACTERS: Final = 8


class BatchId(NamedTuple):
    """A batch of one checkpoint."""

    query: str
    """Id of the checkpoint's query, a UUID."""
    number: int

    @property
    def directory(self) -> str:
        """The value of the column `kafka_batch`; in order for one query."""
        return f"{self.query[:QUERY_ID_CHARACTERS]}-{self.number:010d}"


class Table(Protocol):
    """What the sink needs of a table. Paths are of any file system that Spark knows."""

    path: str

    def exists(self) -> bool: ...

    def read(self) -> DataFrame | None:
        """Its rows, of whole batches only; None when there is none yet."""

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


def resume(rows: Table, rejects: Table | None) -> Positions:
    """Where to go on behind a table without its checkpoint: the offset after the last record.

    A batch writes its rejects first. If it did not come to its rows, its rejects are removed here:
    they are read again.
    """
    if isinstance(rows, ParquetTable):
        rows.remove_incomplete()
        if isinstance(rejects, ParquetTable):
            rejects.remove_incomplete()
            written = rows.newest_batches()
            newest = rejects.newest_batches()
            rejects.remove(name for query, name in newest.items() if name > written.get(query, ""))
        return _ends([table for table in (rows, rejects) if table is not None])
    found = _ends([rows])
    if isinstance(rejects, DeltaTable) and rejects.exists():
        rejects.delete(beyond(found))
    return found


def _ends(tables: Sequence[Table]) -> Positions:
    """Where the records of tables end: the offset after the highest one by topic and partition."""
    from pyspark.sql import functions as f

    found: Positions = {}
    for table in tables:
        rows = table.read()
        if rows is None:
            continue
        place = f.col(PLACE)
        ends = rows.groupBy(
            place["topic"].alias("topic"), place["partition"].alias("partition")
        ).agg((f.max(place["offset"]) + 1).alias("next"))
        for row in ends.collect():
            partitions = found.setdefault(row["topic"], {})
            partitions[row["partition"]] = max(row["next"], partitions.get(row["partition"], 0))
    return found


class DeltaTable:
    """A table of Delta Lake."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str]) -> None:
        self.path = path
        self._spark = spark
        self._partition_by = list(partition_by)

    def exists(self) -> bool:
        return delta_tables.properties(self._spark, self.path) is not None

    def read(self) -> DataFrame | None:
        return self._spark.read.format("delta").load(self.path) if self.exists() else None

    def write(self, rows: DataFrame, batch: BatchId) -> None:
        details = json.dumps({"kavka": {"query": batch.query, "batch": batch.number}})
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", f"kavka-{batch.query}")
            .option("txnVersion", str(batch.number))
            .option("userMetadata", details)
            .partitionBy(*self._partition_by)
            .save(self.path)
        )

    def delete(self, condition: str) -> None:
        """Delete the rows for which a condition of SQL holds."""
        self._spark.sql(f"DELETE FROM {table_name(self.path)} WHERE {condition}").collect()

    def compact(self) -> str:
        (done,) = self._spark.sql(f"OPTIMIZE {table_name(self.path)}").collect()
        row = done["metrics"]
        return (
            f"{self.path}: {row['numFilesRemoved']:,} files are {row['numFilesAdded']:,} now; the "
            "old ones are still there for readers of older versions, until VACUUM"
        )


def beyond(after: Positions, place: str = f"`{PLACE}`.") -> str:
    """A condition of SQL: rows at or after these offsets, and of partitions that are not named.

    `place` precedes the columns topic, partition and offset."""
    parts = [
        f"({place}topic = {_quoted(topic)} and {place}partition = {partition} "
        f"and {place}offset < {offset})"
        for topic, partitions in after.items()
        for partition, offset in partitions.items()
    ]
    return f"not ({' or '.join(parts)})" if parts else "true"


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
        """The complete batches. What a batch without `_SUCCESS` holds will be written again."""
        from pyspark.errors import AnalysisException

        whole = [self._directory(name) for name in self.batches()]
        try:
            reader = self._spark.read.option("basePath", self.path)
            return reader.parquet(*whole) if whole else None
        except AnalysisException as failure:
            if failure.getCondition() == "UNABLE_TO_INFER_SCHEMA":
                return None  # batches without rows have no files, if there are columns to part by
            raise

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

    def remove_incomplete(self) -> None:
        """Remove what batches left that were not written whole and will not be written again: to
        other readers their files are data."""
        self.remove([name for name in self._names() if not self._is_complete(name)])

    def newest_batches(self) -> dict[str, str]:
        """The last complete batch of each checkpoint, by the id of its query: it may be written
        again, and is never compacted."""
        return {
            name.rpartition("-")[0]: name
            for name in self.batches()  # in order
            if not name.startswith(COMPACTED)
        }

    def compact(self) -> str:
        """All batches that cannot be written again become one.

        The new directory is written beside the table, under a name that readers skip. Then the old
        ones are removed and it takes its place: readers see records missing in between, never
        twice. A file says what is to be removed, so that the next run ends what a kill cut short.
        """
        newest = set(self.newest_batches().values())
        names = [name for name in self.batches() if name not in newest]
        batches = [name for name in names if not name.startswith(COMPACTED)]
        everything = self.read()
        if len(names) < 2 or everything is None:
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
        there = self._files.list(self.path)
        return [name.removeprefix(PREFIX) for name in there if name.startswith(PREFIX)]

    def _is_complete(self, name: str) -> bool:
        return self._files.exists(f"{self._directory(name)}/_SUCCESS")

    def _directory(self, name: str) -> str:
        return f"{self.path}/{PREFIX}{name}"


PREFIX: Final = f"{BATCH}="
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


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id of a checkpoint's query, which Spark writes before the first batch; None before."""
    from pyspark.errors import PySparkException

    try:
        rows = spark.read.text(f"{checkpoint}/metadata").collect()
    except PySparkException as failure:
        if failure.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return str(json.loads(rows[0]["value"])["id"])


def batch_id(spark: SparkSession, checkpoint: str, number: int) -> BatchId:
    """The id of a batch that Spark has given to be written."""
    query = query_id(spark, checkpoint)
    assert query is not None  # Spark writes it before the first batch
    return BatchId(query, number)


def committed_offsets(spark: SparkSession, checkpoint: str) -> Offsets:
    """Where the last batch that the checkpoint says is done ended; {} when there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        done = (
            spark.read.text(f"{checkpoint}/commits", pathGlobFilter="[0-9]*")
            .select(f.regexp_extract(f.input_file_name(), r"(\d+)$", 1).cast("long").alias("n"))
            .agg(f.max("n"))
            .collect()[0][0]
        )
    except PySparkException as failure:
        if failure.getCondition() == "PATH_NOT_FOUND":
            return {}
        raise
    if done is None:
        return {}
    (offsets,) = spark.read.text(f"{checkpoint}/offsets/{done}", wholetext=True).collect()
    return parsed(offsets["value"].splitlines()[2])  # after the version and the batch's metadata
