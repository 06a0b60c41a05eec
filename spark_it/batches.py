"""Batches that go into two tables, of rows and of rejects: each record is in one of them, once.

A batch writes its rejects first. So a batch whose rows are there is there whole. One with only its
rejects was cut short, and is read again; by then the schema may have been mended, and other records
be rejected. So its first rejects are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.spark_it.errors import SparkError
from kavka.spark_it.offsets import OFFSET_MAX, Positions
from kavka.spark_it.tables import BatchId, DeltaTable, ParquetTable, Table, between

if TYPE_CHECKING:
    from kavka.spark_it.checkpoints import Plan


class Repeat(NamedTuple):
    """The last batch that the run before has planned: Spark gives it again if it is not done."""

    number: int
    whole: bool
    """Whether the tables have it whole, so that nothing of it may be written again."""


def repeated(rows: Table, query: str, plan: Plan, checkpoint: str) -> Repeat:
    """What the table of rows has of the last batch that a checkpoint knows.

    SparkError if it has another batch under that number, or a later one: the checkpoint is older
    than the table, and of what Spark would read from there the table has some already.
    """
    last = rows.newest_batch(query)
    if last is None or last.number < plan.number:
        return Repeat(plan.number, whole=False)
    other = last.span is not None and last.span.ends != plan.ends
    if last.number > plan.number or other:
        raise SparkError(
            f"the checkpoint {checkpoint} is older than the table {rows.path}, which has batch "
            f"{last.number} already{', with other offsets' if other else ''}: remove the "
            "checkpoint; the next run goes on behind the last record of each partition in the table"
        )
    return Repeat(plan.number, whole=last.span is not None)


def discard(rows: Table, rejects: Table, batch: BatchId) -> None:
    """Remove what an earlier attempt has left of a batch that is to be written again."""
    if isinstance(rows, ParquetTable):
        rows.discard(batch)  # first: what has its rows counts as whole
    rejects.discard(batch)


def remove_unfinished(
    rows: Table, rejects: Table | None, topics: Collection[str], *, but_of: str | None = None
) -> None:
    """Remove what was not written whole and will not be written again: of these topics, as others'
    rejects may be those of another sink.

    The last batch of the query `but_of` stays: its checkpoint is there, so it will be written.
    """
    kept = None if but_of is None else BatchId(but_of, 0).series
    for table in (rows, rejects):
        if isinstance(table, ParquetTable):
            table.remove_incomplete(kept)
    if rejects is None:
        return
    written = rows.newest_batches()
    for series, batch in rejects.newest_batches().items():
        if series == kept or rejects.topics(batch).isdisjoint(topics):
            continue
        whole = series in written and written[series].number >= batch.number
        if not whole and not _is_passed(rows, batch):
            rejects.discard(batch)
        if isinstance(rejects, DeltaTable):
            return  # where what has been discarded is still in the history


def _is_passed(rows: Table, batch: BatchId) -> bool:
    """Whether there are rows of a batch, or of later ones: then it was written whole, even if a
    table of Delta does not know it any more (its history goes back a month, if not set)."""
    places = rows.places()
    if batch.span is None or places is None:
        return False
    starts, ends = batch.span
    no_end = {topic: dict.fromkeys(partitions, OFFSET_MAX) for topic, partitions in ends.items()}
    return not places.where(between(starts, no_end, "")).isEmpty()


def resume(rows: Table, rejects: Table | None, topics: Collection[str]) -> Positions:
    """Where to go on behind tables without their checkpoint: the offset after the last record.

    Batches that were cut short are removed first: they are read again.
    """
    remove_unfinished(rows, rejects, topics)
    return _ends([table for table in (rows, rejects) if table is not None])


def _ends(tables: Sequence[Table]) -> Positions:
    """Where the records of tables end: the offset after the highest one by topic and partition."""
    from pyspark.sql import functions as f

    found: Positions = {}
    for table in tables:
        places = table.places()
        if places is None:
            continue
        ends = places.groupBy("topic", "partition").agg((f.max("offset") + 1).alias("next"))
        for row in ends.collect():
            partitions = found.setdefault(row["topic"], {})
            partitions[row["partition"]] = max(row["next"], partitions.get(row["partition"], 0))
    return found
