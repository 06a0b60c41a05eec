"""The pipeline compact-history, judged by a plain model over random changelogs."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kavka.spark_it import SparkError, changelog, delta_tables
from kavka.spark_it.pipelines.compact_history import Options, run
from support import changelogs
from support.changelogs import PARTITIONS, Row, random_changelog
from support.process import BrokerProcess
from support.spark import Stored, create_topic, end_offsets, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 17


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(changelogs.SCHEMA))
    return str(path)


def latest_rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """A table of the form `latest`, as the model has it."""
    found = frame.select("kafka.partition", "kafka.offset", "key", "name", "size").collect()
    return sorted(tuple(row) for row in found)


def version_rows(frame: DataFrame) -> list[Row]:
    """A table of the form `scd2`, as the model has it."""
    from pyspark.sql import functions as f

    found = frame.select(
        "kafka.partition",
        "kafka.offset",
        "key",
        "name",
        "size",
        f.unix_millis("valid_from"),
        f.unix_millis("valid_to"),
        "is_current",
    ).collect()
    for row in found:
        assert row.is_current == (row[6] is None)
    return sorted(Row(*row[:7]) for row in found)


def bad_ones(records: list[Stored]) -> list[tuple[int, int, bytes | None]]:
    """Place and value of the records that are to be rejected."""
    return sorted((r.partition, r.offset, r.value) for r in records if changelogs.is_bad(r))


def rejects(frame: DataFrame) -> list[tuple[int, int, bytes | None]]:
    found = frame.select("kafka.partition", "kafka.offset", "value", "reason").collect()
    assert all(row.reason for row in found)
    return sorted((r[0], r[1], None if r[2] is None else bytes(r[2])) for r in found)


@pytest.mark.parametrize("form", ["latest", "scd2"])
def test_the_table_of_many_runs_is_that_of_one(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: str,
    form: str,
    schema_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs that go on from the checkpoint, one of which dies after the write of a batch and before
    its commit. Then the same as of a time, as of offsets, and whole into Parquet."""
    chance = random.Random(SEED)
    create_topic(broker.bootstrap, topic, PARTITIONS)
    options = Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        value_format="json",
        schema_file=schema_file,
        table=str(tmp_path / "table"),
        form=form,
        rejects=str(tmp_path / "rejects"),
    )

    def table(of: Options) -> list[Any]:
        frame = spark.read.format(of.table_format).load(of.table)
        return latest_rows(frame) if form == "latest" else version_rows(frame)

    def model(records: list[Stored], until_ms: int | None = None) -> list[Any]:
        if form == "scd2":
            return changelogs.rows(records, until_ms=until_ms)
        return [row.known() for row in changelogs.latest(records, until_ms=until_ms)]

    stored = produce(broker.bootstrap, topic, random_changelog(chance, 60))
    summary = run(options, spark=spark)
    assert table(options) == model(stored)
    assert (summary.rows, summary.lag) == (60, 0)
    assert summary.details["rejected"] == len(bad_ones(stored)) > 0

    first_ends = end_offsets(broker.bootstrap, topic, PARTITIONS)
    first = list(stored)
    stored += produce(broker.bootstrap, topic, random_changelog(chance, 60))
    with monkeypatch.context() as patched:
        patched.setattr(delta_tables, "merge", dying_after(delta_tables.merge))
        with pytest.raises(SparkError, match="died after the write"):
            run(options, spark=spark)
    assert table(options) == model(stored)  # written, and not yet in the checkpoint
    summary = run(options, spark=spark)
    assert summary.rows == 60, "the batch was not repeated"
    assert table(options) == model(stored)
    written = spark.read.format("delta").load(str(tmp_path / "rejects"))
    assert rejects(written) == bad_ones(stored)

    moment_ms = changelogs.BASE_MS + 18_000
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()
    past = replace(options, table=str(tmp_path / "past"), as_of=moment, rejects=None)
    run(past, spark=spark)
    assert table(past) == model(stored, moment_ms) != model(stored)
    ends = json.dumps({topic: {str(p): offset for p, offset in first_ends.items()}})
    summary = run(replace(past, as_of=ends), spark=spark)  # over what was there
    assert table(past) == model(first)
    assert (summary.rows, summary.details["rejected"]) == (60, len(bad_ones(first)))

    parquet = replace(options, table=str(tmp_path / "parquet"), table_format="parquet")
    parquet = replace(parquet, rejects=str(tmp_path / "parquet-rejects"))
    for _ in range(2):
        assert run(parquet, spark=spark).details["rejected"] == len(bad_ones(stored))
        assert table(parquet) == model(stored)
    written = spark.read.parquet(str(tmp_path / "parquet-rejects"))
    assert rejects(written) == bad_ones(stored)


def dying_after(write: Any) -> Any:
    """A write that is done, and then fails."""

    def died(*arguments: Any, **named: Any) -> None:
        write(*arguments, **named)
        raise RuntimeError("died after the write")

    return died


def test_a_table_is_only_continued_by_what_made_it(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    options = Options(
        bootstrap_server=broker.bootstrap, topics=(topic,), table=str(tmp_path / "table")
    )
    run(options, spark=spark)  # an empty topic makes an empty table
    assert spark.read.format("delta").load(options.table).columns == ["key", "value", "kafka"]
    for other in (replace(options, form="scd2"), replace(options, as_of="2026-01-01")):
        with pytest.raises(SparkError, match="is a table of another form"):
            run(other, spark=spark)
    with pytest.raises(SparkError, match="other columns"):
        run(replace(options, key_column="id"), spark=spark)
    with pytest.raises(SparkError, match="--key-column"):
        run(replace(options, key_column="value"), spark=spark)
    empty = replace(options, table=str(tmp_path / "p"), table_format="parquet")
    assert run(empty, spark=spark).rows == 0
    assert spark.read.parquet(empty.table).count() == 0


def test_versions_can_be_made_in_parts(spark: SparkSession) -> None:
    """Thousands of events of hundreds of keys, in two parts that overlap: those that the table has
    already change nothing."""
    chance = random.Random(SEED)
    stored = [
        Stored(
            f"t{turn}",
            record.partition or 0,
            offset,
            record.timestamp_ms or 0,
            record.key,
            record.value,
        )
        for turn in range(25)
        for offset, record in enumerate(random_changelog(chance, 120))
        if not changelogs.is_bad(Stored("", 0, 0, 0, record.key, record.value))
    ]
    schema = (
        "key string, name string, size long, kafka struct<topic: string, partition: int, "
        "offset: long>, _deleted boolean, _at timestamp"
    )
    rows = []
    for record in stored:
        value = json.loads(record.value) if record.value else {}
        at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        where = (record.topic, record.partition, record.offset)
        key = record.key.decode() if record.key else None
        rows.append((key, value.get("name"), value.get("size"), where, not value, at))
    events = spark.createDataFrame(rows, schema).persist()
    before, overlap = events.where("kafka.offset < 60"), events.where("kafka.offset >= 30")
    table = changelog.versions(changelog.effective(before, "key"), "key").persist()
    found = {(row.kafka, row.key): row for row in table.collect()}
    changed = changelog.changed_versions(table, overlap, "key").collect()
    assert len({(row.kafka, row.key) for row in changed}) == len(changed)
    found |= {(row.kafka, row.key): row for row in changed}
    expected = [
        (f"t{turn}", *row)
        for turn in range(25)
        for row in changelogs.rows(record for record in stored if record.topic == f"t{turn}")
    ]
    assert sorted(map(comparable, found.values())) == sorted(expected)
    assert len(expected) > 500


def comparable(row: Any) -> tuple[object, ...]:
    times = [row.valid_from, row.valid_to]
    in_ms = [None if t is None else round(t.timestamp() * 1000) for t in times]
    return (*row.kafka, row.key, row.name, row["size"], *in_ms)
