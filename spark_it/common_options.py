"""Options that pipelines share: of the cluster, the Spark session, the reports, and of reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.spark_it.errors import SparkError
from kavka.spark_it.options import NO_TEXTS, option
from kavka.spark_it.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """Of every pipeline."""

    bootstrap_server: str = option(
        "brokers to connect to first, HOST:PORT, several with commas between them",
        example="localhost:9092",
    )
    kafka: Mapping[str, str] = option(
        "settings of the Kafka clients, by Kafka's names",
        default=NO_TEXTS,
        example="security.protocol=SASL_SSL",
    )
    master: str | None = option(
        "the Spark master; local[*] if neither this nor spark.master is set",
        default=None,
        example="spark://host:7077",
    )
    remote: str | None = option(
        "a Spark Connect server to use instead of a Spark of this process",
        default=None,
        example="sc://host:15002",
    )
    jars: tuple[str, ...] = option(
        "jars of the connector to use instead of those that Kavka fetches", default=()
    )
    spark: Mapping[str, str] = option(
        "settings of the Spark session, by Spark's names",
        default=NO_TEXTS,
        example="spark.executor.memory=4g",
    )
    summary: str | None = option(
        "write the summary (JSON) to this file; standard output if not set",
        default=None,
        example="summary.json",
    )
    metrics_port: int = option(
        "serve Prometheus metrics at this port of 127.0.0.1 while it runs; 0 serves none",
        default=0,
    )

    def session(self, *, delta: bool = False, avro: bool = False) -> SparkSession:
        """The Spark session that these options ask for."""
        return session(
            "kavka pipeline",
            master=self.master,
            remote=self.remote,
            delta=delta,
            avro=avro,
            jars=list(self.jars) or None,
            config=self.spark,
        )

    def kafka_options(self) -> dict[str, str]:
        """What Spark's Kafka source and sink need to find the cluster."""
        own = {f"kafka.{name}": value for name, value in self.kafka.items()}
        return {"kafka.bootstrap.servers": self.bootstrap_server, **own}


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(PipelineOptions):
    """Of a pipeline that reads topics."""

    topics: tuple[str, ...] = option(
        "topics to read; this or topic_pattern is required", default=(), example="events"
    )
    topic_pattern: str | None = option(
        "read the topics whose names match this regular expression (of Java)",
        default=None,
        example="events-.*",
    )
    starting: str = option(
        "where a first run begins: earliest, latest, a time (2026-01-31T12:00:00Z), or offsets "
        'as {"topic": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest; later runs go on '
        "where the last one ended",
        default="earliest",
    )
    isolation_level: str = option(
        "whether records of aborted and unfinished transactions are read",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
    )
    fail_on_data_loss: bool = option(
        "stop with an error if records that were not read yet have been deleted from the topic",
        default=True,
    )
    min_partitions: int = option(
        "read with at least so many tasks; 0 is one task a partition", default=0
    )

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise SparkError("give either topics or topic_pattern (--topics, --topic-pattern)")


@dataclass(frozen=True, kw_only=True)
class StreamingOptions(ReadingOptions):
    """Of a pipeline that follows topics."""

    checkpoint: str | None = option(
        "directory of the checkpoint; below the table if not set",
        default=None,
        example="/data/checkpoints/events",
    )
    trigger: str = option(
        "available-now ends when all that was there at the start has been read; continuous goes "
        "on until Ctrl-C or SIGTERM",
        default="available-now",
        choices=("available-now", "continuous"),
    )
    interval: str = option(
        "time from batch to batch with trigger=continuous; as soon as possible if not set",
        default="",
        example="10 seconds",
    )
    max_offsets_per_batch: int = option(
        "at most so many records of all partitions in a batch; 0 is no limit", default=0
    )
