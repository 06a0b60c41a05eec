"""The pipeline compact-history, judged by a plain model over random changelogs."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kavka.spark_it import SparkError, changelog, delta_tables
from kavka.spark_it.parsing import Parser, ValueOptions
from kavka.spark_it.pipelines.compact_history import Options, run
from support import changelogs
from support.changelogs import PARTITIONS, Row, random_changelog
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, delete_topic, end_offsets, produce, whole
from support.spark_queries import uncommit

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


class Case:
    """A form of the table: its pipeline's options, and what the table has to hold."""

    def __init__(self, spark: SparkSession, options: Options) -> None:
        self.spark = spark
        self.options = options

    def with_options(self, **changed: Any) -> Case:
        return Case(self.spark, replace(self.options, **changed))

    def table(self) -> list[Any]:
        """The rows of the table, as the model has them."""
        frame = self.spark.read.format(self.options.table_format).load(self.options.table)
        return latest_rows(frame) if self.options.form == "latest" else version_rows(frame)

    def model(self, records: list[Stored], until_ms: int | None = None) -> list[Any]:
        """What the table of these records holds, by the model."""
        if self.options.form == "scd2":
            return changelogs.rows(records, until_ms=until_ms)
        return [row.known() for row in changelogs.latest(records, until_ms=until_ms)]

    def rejects(self) -> list[tuple[int, int, bytes | None]]:
        """The table of rejects: places and values."""
        assert self.options.rejects is not None
        frame = self.spark.read.format(self.options.table_format).load(self.options.rejects)
        found = frame.select("kafka.partition", "kafka.offset", "value", "reason").collect()
        assert all(row.reason for row in found)
        return sorted((r[0], r[1], None if r[2] is None else bytes(r[2])) for r in found)


@pytest.fixture
def case(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: str,
    form: str,
    schema_file: str,
    tmp_path: Path,
) -> Case:
    """A new topic, and a table of the form `form` that does not exist yet."""
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
    return Case(spark, options)


@pytest.mark.parametrize("form", [pytest.param("latest", marks=pytest.mark.whole), "scd2"])
def test_the_table_of_many_batches_is_that_of_one(
    spark: SparkSession, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run dies after the write of a batch and before its commit; the next repeats the batch and
    goes on. By then all keys have moved to other partitions, as when a topic gets more of them."""
    chance = random.Random(SEED)
    bootstrap, (topic,) = case.options.bootstrap_server, case.options.topics
    stored = produce(bootstrap, topic, random_changelog(chance, 60))
    with monkeypatch.context() as patched:
        patched.setattr(delta_tables, "merge", dying_after(delta_tables.merge))
        with pytest.raises(SparkError, match="died after the write"):
            run(case.options, spark=spark)
    assert case.table() == case.model(stored)  # written, and not yet in the checkpoint
    stored += produce(bootstrap, topic, random_changelog(chance, 60, moved=1, later_s=40))
    summary = run(case.options, spark=spark)
    assert (summary.rows, summary.batches, summary.lag) == (120, 2, 0)
    assert summary.details["rejects"] == len(bad_ones(stored)) > 0
    assert case.table() == case.model(stored)
    assert case.rejects() == bad_ones(stored)


@pytest.mark.whole
@pytest.mark.parametrize("form", ["latest", "scd2"])
def test_at_random(spark: SparkSession, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of small batches, which die at any of them, before or after its write."""
    chance = random.Random(SEED)
    bootstrap, (topic,) = case.options.bootstrap_server, case.options.topics
    options = replace(case.options, max_offsets_per_batch=100)
    stored: list[Stored] = []
    deaths = 0
    for _ in range(5):
        stored += produce(bootstrap, topic, random_changelog(chance, 150))
        with monkeypatch.context() as patched:
            dying = dying_after if chance.random() < 0.5 else dying_before
            merge = dying(delta_tables.merge, at_call=chance.randrange(1, 3))
            patched.setattr(delta_tables, "merge", merge)
            with contextlib.suppress(SparkError):
                run(options, spark=spark)
                continue
        deaths += 1
    assert deaths
    run(options, spark=spark)
    assert case.table() == case.model(stored)
    assert case.rejects() == bad_ones(stored)


@pytest.mark.whole
@pytest.mark.parametrize("form", ["latest", "scd2"])
def test_a_table_as_of_then(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is now and as of a time, in Parquet; as of offsets, in Delta, where Spark observes
    nothing, as Spark Connect does under load."""
    chance = random.Random(SEED)
    bootstrap, (topic,) = case.options.bootstrap_server, case.options.topics
    first = produce(bootstrap, topic, random_changelog(chance, 60))
    first_ends = end_offsets(bootstrap, topic, PARTITIONS)
    stored = first + produce(bootstrap, topic, random_changelog(chance, 60, moved=1))

    now = case.with_options(table=str(tmp_path / "parquet"), table_format="parquet")
    assert run(now.options, spark=case.spark).details["rejects"] == len(bad_ones(stored))
    assert now.table() == case.model(stored)
    assert now.rejects() == bad_ones(stored)

    moment_ms = changelogs.BASE_MS + 8_000
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()
    past = now.with_options(as_of=moment, rejects=None)
    run(past.options, spark=case.spark)  # over what was there
    assert past.table() == case.model(stored, moment_ms)
    assert [] != past.table() != case.model(stored)

    ends = json.dumps({topic: {str(p): offset for p, offset in first_ends.items()}})
    past = case.with_options(as_of=ends, rejects=None)
    if whole():
        run(past.options, spark=case.spark)
    with monkeypatch.context() as patched:
        patched.setattr("pyspark.sql.Observation.get", property(lambda _: {}))
        summary = run(past.options, spark=case.spark)
    assert past.table() == case.model(first)
    assert (summary.rows, summary.details["rejects"]) == (60, len(bad_ones(first)))


def dying_after(write: Any, at_call: int = 1) -> Any:
    """A write that is done; in its n-th call it fails after that."""
    calls = itertools.count(1)

    def died(*arguments: Any, **named: Any) -> None:
        write(*arguments, **named)
        if next(calls) == at_call:
            raise RuntimeError("died after the write")

    return died


def dying_before(write: Any, at_call: int = 1) -> Any:
    """A write that is done, but for its n-th call, which fails instead."""
    calls = itertools.count(1)

    def died(*arguments: Any, **named: Any) -> None:
        if next(calls) == at_call:
            raise RuntimeError("died before the write")
        write(*arguments, **named)

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


def test_a_topic_created_again_needs_another_table(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Without the checkpoint, which Spark itself would find to be ahead of the topic."""
    options = Options(
        bootstrap_server=broker.bootstrap, topics=(topic,), table=str(tmp_path / "table")
    )
    create_topic(broker.bootstrap, topic, 1)
    produce(broker.bootstrap, topic, [Record(b"1", b"k"), Record(b"2", b"k"), Record(b"3", b"k")])
    run(options, spark=spark)
    shutil.rmtree(tmp_path / "table" / "_checkpoint")
    run(options, spark=spark)  # the same topic from its start changes nothing
    shutil.rmtree(tmp_path / "table" / "_checkpoint")
    delete_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, topic, 1)
    produce(broker.bootstrap, topic, [Record(b"new", b"k")])
    with pytest.raises(SparkError, match=f"has record 2 of {topic}-0, .* created again"):
        run(options, spark=spark)


def test_rejects_of_a_killed_batch_are_those_of_its_last_attempt(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The schema is mended between two attempts: what was rejected is a row then."""
    schema = tmp_path / "schema.json"
    strict = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema.write_text(json.dumps(strict))
    create_topic(broker.bootstrap, topic)
    values = [b'{"n": 1}', b"{}", b"no JSON"]
    produce(broker.bootstrap, topic, [Record(value, value) for value in values])
    options = Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        table=str(tmp_path / "table"),
        rejects=str(tmp_path / "rejects"),
        value_format="json",
        schema_file=str(schema),
    )

    def found(path: str | None) -> list[int]:
        rows = spark.read.format("delta").load(path).select("kafka.offset").collect()
        return sorted(row.offset for row in rows)

    run(options, spark=spark)
    assert found(options.rejects) == [1, 2]
    uncommit(f"{options.table}/_checkpoint")
    schema.write_text(json.dumps({**strict, "required": []}))
    run(options, spark=spark)
    assert (found(options.table), found(options.rejects)) == ([0, 1], [2])


def test_a_directory_of_others_is_not_replaced(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    options = Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        table=str(tmp_path / "table"),
        table_format="parquet",
        rejects=str(tmp_path / "rejects"),
    )
    (tmp_path / "home").mkdir()
    letter = tmp_path / "home" / "letter.txt"
    letter.write_text("dear")
    other = str(tmp_path / "other")
    spark.range(3).write.parquet(other)
    for path, found in ((str(letter.parent), "letter.txt"), (other, "part-")):
        for wrong in (replace(options, table=path), replace(options, rejects=path)):
            with pytest.raises(SparkError, match=f"did not write .{found}"):
                run(wrong, spark=spark)
    assert letter.read_text() == "dear"
    assert spark.read.parquet(other).count() == 3
    for _ in range(2):  # over its own
        assert run(options, spark=spark).rows == 0


def test_versions_can_be_made_in_parts(spark: SparkSession) -> None:
    """Thousands of events of hundreds of keys, in two parts that overlap: those that the table has
    already change nothing. In the middle keys move to other partitions."""
    chance = random.Random(SEED)

    def records() -> list[Record]:
        return [
            *random_changelog(chance, 60),
            *random_changelog(chance, 60, moved=1, later_s=40),
        ]

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
        for offset, record in enumerate(records())
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
    in_ms = [None if time is None else round(time.timestamp() * 1000) for time in times]
    return (*row.kafka, row.key, row.name, row["size"], *in_ms)


SOURCE = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of Spark's Kafka source that the pipeline reads."""


@pytest.mark.parametrize("key_is_text", [True, False])
def test_what_is_an_event(spark: SparkSession, tmp_path: Path, key_is_text: bool) -> None:
    """Of Avro, whose schema has no null: a tombstone removes a row, other values are rejected."""
    schema = tmp_path / "schema.avsc"
    schema.write_text('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}')
    values = {b"a": b"\x0e", b"gone": None, b"bad": b"", b"\xff": b"\x02", None: b"\x04"}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (key, value, "t", 0, offset, moment, None)
        for offset, (key, value) in enumerate(values.items())
    ]
    parser = Parser(ValueOptions(value_format="avro", schema_file=str(schema)))
    judged = changelog.judged(spark.createDataFrame(rows, SOURCE), parser, key_is_text=key_is_text)
    events = changelog.events(judged, "id", key_is_text=key_is_text)
    found = {
        row["kafka"]["offset"]: (row["id"], row["n"], row["_deleted"]) for row in events.collect()
    }
    expected: dict[int, tuple[Any, ...]] = {
        0: (b"a", 7, False),  # zigzag, as Avro writes whole numbers
        1: (b"gone", None, True),
        3: (b"\xff", 1, False),
    }
    if key_is_text:
        del expected[3]
        expected = {offset: (row[0].decode(), *row[1:]) for offset, row in expected.items()}
    assert found == expected
    reasons = {
        row["kafka"]["offset"]: row["reason"] for row in changelog.rejected(judged).collect()
    }
    assert set(reasons) == {0, 1, 2, 3, 4} - set(expected)
    assert reasons[2] == "does not match the Avro schema"
    assert reasons[4] == "has no key"
    assert not key_is_text or "UTF-8" in reasons[3]
