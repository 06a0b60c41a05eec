"""The pipeline verify: what it finds between two sides is what a plain model finds."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.comparing import Rules
from kavka.spark_it.pipelines import verify
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, numbered, produce, whole
from support.spark_comparison import (
    Model,
    by_key,
    by_offset,
    frame,
    in_any_order,
    random_side,
    shown,
    with_faults,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = 1_000_000
"""More findings of a kind than there are in a test."""


class Case(NamedTuple):
    name: str
    rules: dict[str, Any]
    model: Model
    unique_keys: bool = False
    keep_places: bool = False
    id: str | None = None
    """What the option auto must choose."""
    whole: bool = False
    """Only in the long form."""


def first_byte(record: Stored) -> bytes | None:
    return None if record.value is None else record.value[:1]


CASES = (
    Case("the same partition, ids are keys", {"id": "key"}, Model(id=by_key)),
    Case(
        "any partition, order of keys",
        {"partitions": "any", "order": "key", "id": "hex(substring(value, 1, 1))"},
        Model(same_partition=False, by_key=True, id=first_byte),
    ),
    Case(
        "key and value only, without ids",
        {"parts": ("key", "value"), "id": "none"},
        Model(parts=("key", "value")),
        whole=True,
    ),
    Case("unique keys", {}, Model(id=by_key), unique_keys=True, id="key"),
    Case("kept offsets", {}, Model(id=by_offset), keep_places=True, id="offset"),
)


def named(case: Case) -> Any:
    marks = [pytest.mark.whole] if case.whole else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [named(case) for case in CASES])
def test_findings_are_those_of_the_model(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    """Each topic is a case of its own, with other faults; one comparison judges them all."""
    chance = random.Random(f"{case.name} 17")
    first: list[Stored] = []
    second: list[Stored] = []
    for number in range(2000 if whole() else 60):
        topic = f"topic-{number}"
        side = random_side(
            chance, topic, records=chance.randrange(30), unique_keys=case.unique_keys
        )
        first += side
        second += with_faults(chance, side, chance.randrange(6), keep_places=case.keep_places)
    expected = case.model.compare(first, second)
    kinds = {finding.kind for finding in expected}
    assert len(kinds) >= 3, "the faults of this test show too little"

    rules = Rules(by_topic=True, examples_max=ALL, **case.rules)
    path = str(tmp_path / "findings")
    report = verify.compare(frame(spark, first), frame(spark, second), rules, findings=path)

    assert len(report.findings) == len(set(report.findings))
    assert set(report.findings) == expected
    assert report.counts == {
        kind: sum(finding.kind == kind for finding in expected) for kind in report.counts
    }
    assert (report.first, report.second) == (len(first), len(second))
    assert report.matched == case.model.matched
    assert case.id is None or report.id == case.id
    assert not report.equal
    assert spark.read.parquet(path).count() == len(expected)


class Alike(NamedTuple):
    """Records by the letters of their values, in partition 0, and behind a slash in partition 1."""

    first: str
    second: str
    found: dict[str, int]
    partitions: str = "same"


ALIKE = (
    Alike("ABA", "BA", {"lost": 1}),  # if the first A was lost
    Alike("AB", "BAA", {"duplicated": 1, "reordered": 1}),  # B is before each A
    Alike("AB", "ABA", {"duplicated": 1}),
    Alike("BA", "ABA", {"duplicated": 1}),  # B is behind the first A, but before the copy of it
    Alike("ABAC", "CBA", {"lost": 1, "reordered": 2}),  # C is before B, and before either A
    Alike("ABA", "BA/A", {}, partitions="any"),  # if the first A has gone to partition 1
    Alike("AB/A", "BA/A", {}, partitions="any"),
    Alike("AB/C", "BA/C", {"reordered": 1}, partitions="any"),
)


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: f"{case.first}-{case.second}")
def test_only_what_is_certain_is_reordered(spark: SparkSession, case: Alike) -> None:
    def side(letters: str) -> list[Stored]:
        return [
            Stored("a", partition, offset, 1, None, letter.encode(), ())
            for partition, values in enumerate(letters.split("/"))
            for offset, letter in enumerate(values)
        ]

    rules = Rules(partitions=case.partitions)
    report = verify.compare(frame(spark, side(case.first)), frame(spark, side(case.second)), rules)
    assert {kind: count for kind, count in report.counts.items() if count} == case.found


def test_a_limit_on_examples(spark: SparkSession) -> None:
    side = random_side(random.Random(3), "a", records=200)
    nothing = verify.compare(frame(spark, side), frame(spark, []), Rules(examples_max=2))
    assert nothing.counts["lost"] == 200
    first_two = sorted(side, key=lambda record: (record.partition, record.offset))[:2]
    assert [finding.first and finding.first.offset for finding in nothing.findings] == [
        record.offset for record in first_two
    ]


def silent(_: str) -> None:
    pass


def again(records: Sequence[Stored]) -> list[Record]:
    """To be produced: kafka-python writes no header that is null."""
    return [
        Record(record.value, record.key, record.partition, record.timestamp_ms, record.headers)
        for record in records
    ]


def test_a_part_that_a_table_does_not_have_must_be_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two tables whose values are other columns are not equal for lack of a column `value`."""
    raw = write_table(
        spark, random_side(random.Random(5), "a", records=9), f"{tmp_path}/raw", "parquet"
    )
    for name, number in (("first", 1), ("second", 2)):
        rows = spark.read.parquet(raw).selectExpr("kafka", f"{number} as id")
        rows.write.parquet(f"{tmp_path}/{name}")
    verify_options = verify.Options(
        bootstrap_server="none:1",
        table=f"{tmp_path}/first",
        second_table=f"{tmp_path}/second",
        table_format="parquet",
    )

    def found(**more: Any) -> dict[str, Any]:
        return verify.run(replace(verify_options, **more), spark=spark, report=silent).details

    value = {"value": "to_json(struct(id))"}
    with pytest.raises(SparkError, match=r"first: no column value: .* columns.value"):
        found()
    with pytest.raises(SparkError, match=r"second: no column value: .* second_columns.value"):
        found(columns=value)
    assert not found(columns=value, second_columns=value)["equal"]
    assert found(compare=("key", "headers", "timestamp"))["equal"]


def test_topics_and_tables_are_sides(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(23)
    create_topic(broker.bootstrap, topic, 3)
    create_topic(broker.bootstrap, f"mirror.{topic}", 3)
    create_topic(broker.bootstrap, f"{topic}-2", 3)
    create_topic(broker.bootstrap, f"mirror.{topic}-2", 3)
    first = produce(broker.bootstrap, topic, numbered(120, partitions=3, first_ms=1000))
    faulty = [
        r._replace(headers=()) if r.headers == (("a", None),) else r
        for r in with_faults(chance, first, 30)
        if r.key is not None or r.value is not None
    ]
    mirrored = produce(broker.bootstrap, f"mirror.{topic}", again(faulty))
    for name in (f"{topic}-2", f"mirror.{topic}-2"):
        produce(broker.bootstrap, name, numbered(10, first_ms=5))
    kafka: dict[str, Any] = {"bootstrap_server": broker.bootstrap, "examples_max": ALL}

    lines: list[str] = []
    verify_options = verify.Options(
        **kafka, topics=(topic,), second_topics=(f"mirror.{topic}",), id="key"
    )
    found = verify.run(verify_options, spark=spark, report=lines.append)
    expected = Model(id=by_key, by_topic=False).compare(first, mirrored)
    details = json.loads(found.to_json())
    assert in_any_order(details["examples"]) == shown(expected)
    assert details["equal"] is False
    assert "verify: the sides are NOT equal" in lines
    assert {f"verify:   {finding}" for finding in expected} <= set(lines)

    several = verify.Options(
        **kafka,
        topics=(topic, f"{topic}-2"),
        second_topic_pattern=f"mirror\\.{topic}.*",
        second_topic_prefix="mirror.",
        id="key",
    )
    found = verify.run(several, spark=spark, report=silent)
    renamed = [record._replace(topic=topic) for record in mirrored]
    examples = in_any_order(found.details["examples"])
    assert examples == shown(Model(id=by_key).compare(first, renamed))
    assert found.details["first"] == 130

    form = "delta" if whole() else "parquet"  # Delta takes seconds to begin
    path = write_table(spark, first[1:], str(tmp_path / "table"), form)
    table = verify.Options(**kafka, topics=(topic,), second_table=path, table_format=form)
    found = verify.run(table, spark=spark, report=silent)
    assert (found.details["matched"], found.details["lost"]) == (119, 1)
    assert found.details["examples"][0]["first"]["offset"] == first[0].offset
    assert found.rows == 239
