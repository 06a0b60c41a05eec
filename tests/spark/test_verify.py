"""The pipeline verify: what it finds between two sides is what a plain model finds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.comparing import Report, Rules
from kavka.spark_it.pipelines import verify
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, numbered, produce, whole
from support.spark_comparison import (
    Model,
    by_key,
    by_offset,
    frame,
    random_side,
    with_faults,
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
    ),
    Case("unique keys", {}, Model(id=by_key), unique_keys=True, id="key"),
    Case("kept offsets", {}, Model(id=by_offset), keep_places=True, id="offset"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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


def test_equal_sides_and_a_limit_on_examples(spark: SparkSession) -> None:
    side = random_side(random.Random(3), "a", records=200)
    rules = Rules(examples_max=2)
    shuffled = random.Random(4).sample(side, len(side))
    assert verify.compare(frame(spark, side), frame(spark, shuffled), rules) == Report(
        first=200, second=200, matched=200
    )
    nothing = verify.compare(frame(spark, side), frame(spark, []), rules)
    assert nothing.counts["lost"] == 200
    first_two = sorted(side, key=lambda record: (record.partition, record.offset))[:2]
    assert [finding.first and finding.first.offset for finding in nothing.findings] == [
        record.offset for record in first_two
    ]
