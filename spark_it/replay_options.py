"""The options of the pipeline `replay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.spark_it import records
from kavka.spark_it.common_options import PipelineOptions
from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import NO_TEXTS, option

TRANSACTION_SECONDS_MAX: Final = 30.0
"""Half of the time after which the broker aborts a transaction (TRANSACTION_TIMEOUT_MS of the
writing task)."""


@dataclass(frozen=True, kw_only=True)
class Options(PipelineOptions):
    """Of the pipeline replay."""

    table: str = option("directory of the table", example="/data/events")
    table_format: str = option(
        "what the table is written in", default="delta", choices=("delta", "parquet")
    )
    columns: Mapping[str, str] = option(
        records.COLUMNS_DOC, default=NO_TEXTS, example=records.COLUMNS_EXAMPLE
    )
    where: str | None = option(
        "only rows for which this SQL expression holds",
        default=None,
        example="kafka.timestamp >= '2026-01-31'",
    )
    topic: str = option("the topic to write to; it must exist", example="events-again")
    partitions: str = option(
        "the partition of a record: the number it has in the table (same), or that of its key as "
        "Kafka's producers choose it, and without a key the number it has, modulo (key)",
        default="same",
        choices=("same", "key"),
    )
    timestamps: str = option(
        "of the records: those in the table, or the time of writing",
        default="original",
        choices=("original", "now"),
    )
    null_headers: str = option(
        "headers whose value is null, which kafka-python cannot write: stop with an error, or "
        "write an empty value",
        default="refuse",
        choices=("refuse", "empty"),
    )
    speed: float = option(
        "the pace of the timestamps: 1.0 takes as long as the records once took, 2.0 half of it; 0 "
        "writes as fast as it can",
        default=0.0,
    )
    rate: float = option(
        "instead of speed: so many records a second, of all partitions together; 0 is no limit",
        default=0.0,
    )
    name: str | None = option(
        "name of this replay, under which it goes on after an interruption: of the consumer group "
        "and, with a number, of the transactional ids; replay-TOPIC if not set",
        default=None,
    )
    restart: bool = option(
        "begin with the first record, whatever a replay of this name has written before",
        default=False,
    )
    writers: int = option(
        "tasks that write at the same time, each the same number of partitions; 0 is as many as "
        "Spark has cores, and no more than partitions",
        default=0,
    )
    transaction_records: int = option("commit after so many records of a task", default=10_000)
    transaction_seconds: float = option(
        "commit after this time at the latest; until then no one who reads committed records "
        "sees them",
        default=1.0,
    )

    def __post_init__(self) -> None:
        if self.speed and self.rate:
            raise SparkError("speed and rate exclude each other: give one of them")
        for name in ("speed", "rate", "writers"):
            if getattr(self, name) < 0:
                raise SparkError(f"{name} is {getattr(self, name)}: give 0 or more")
        for name in ("transaction_records", "transaction_seconds"):
            if getattr(self, name) <= 0:
                raise SparkError(f"{name} is {getattr(self, name)}: give more than 0")
        if self.transaction_seconds > TRANSACTION_SECONDS_MAX:
            raise SparkError(
                f"transaction_seconds is {self.transaction_seconds}: give at most "
                f"{TRANSACTION_SECONDS_MAX}, which brokers wait for"
            )

    @property
    def group(self) -> str:
        """The consumer group that holds how far the replay is."""
        return self.name if self.name is not None else f"replay-{self.topic}"
