"""A Spark session that can read and write Kafka topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kavka.spark_it import jars as known_jars
from kavka.spark_it.errors import SparkError
from kavka.spark_it.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

DELTA_CONFIG: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

LOCAL_DELTA_CONFIG: Final = {
    "spark.databricks.delta.snapshotPartitions": "2",  # else 50 tasks for each look at a table
}

SHARED_CONFIG: Final = {
    "spark.sql.session.timeZone": "UTC",  # dates in tables do not depend on the machine
    "spark.ui.showConsoleProgress": "false",  # pipelines print their own progress
}

LOGGING: Final = Path(__file__).resolve().with_name("log4j2.properties")
"""Spark's log4j settings in a session on this machine."""

UNKNOWN_FORMAT: Final = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "_NOT_LOADED")
"""Parts of the error that Spark gives for a data source whose jar it has not."""


def session(
    app_name: str = "kavka",
    *,
    master: str | None = None,
    remote: str | None = None,
    delta: bool = False,
    avro: bool = False,
    jars: Sequence[str] | None = None,
    config: Mapping[str, str] = NOTHING,
) -> SparkSession:
    """A session with Spark's Kafka source and sink.

    The active session of this process if there is one; else a new one on `master` ("local[*]" if
    neither it nor `spark.master` in `config` is given), or on the Spark Connect server at `remote`
    ("sc://host:15002"). With `delta` and `avro` it has tables of Delta Lake and `from_avro`.

    The jars come from the cache, and are fetched on first use; `jars` are taken instead. They
    cannot be added to a session that is there already, nor to a server: one without the connector
    gives a SparkError that names the options to start it with. So do a missing Java and PySpark.
    """
    from_environment = os.environ.get("SPARK_REMOTE") if master is None else None
    remote = remote or from_environment
    if remote is None and jars is None:
        known_jars.check_pyspark()
    else:
        known_jars.pyspark_directory()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        _check_connector(active, delta=delta, avro=avro)
        return active
    if remote is not None:
        connected = SparkSession.builder.remote(remote).getOrCreate()
        _check_connector(connected, delta=delta, avro=avro)
        return connected
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers on this machine
    builder = SparkSession.builder.appName(app_name)
    for key, value in _classic_config(master, delta, avro, jars, config).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _classic_config(
    master: str | None,
    delta: bool,
    avro: bool,
    jars: Sequence[str] | None,
    config: Mapping[str, str],
) -> dict[str, str]:
    """The configuration of a new session in this process; `config` overrides all but the jars."""
    find_java()
    if jars is None:
        rows = (
            *known_jars.CONNECTOR,
            *(known_jars.AVRO if avro else ()),
            *(known_jars.DELTA if delta else ()),
        )
        jars = [str(path) for path in known_jars.fetch(rows)]
    chosen = master or config.get("spark.master", "local[*]")
    merged = dict(SHARED_CONFIG)
    if chosen.startswith("local"):
        merged |= _local_config()
    if delta:
        merged |= DELTA_CONFIG
        if chosen.startswith("local"):
            merged |= LOCAL_DELTA_CONFIG
    merged |= config
    merged["spark.master"] = chosen
    own = [path for path in config.get("spark.jars", "").split(",") if path]
    merged["spark.jars"] = ",".join([*jars, *own])
    return merged


def _local_config() -> dict[str, str]:
    """For a session on this machine alone, whose defaults are those of a cluster."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, cores or 2)),  # 200 tasks a batch by default
    }


def _check_connector(there: SparkSession, *, delta: bool, avro: bool) -> None:
    """Raise SparkError if a session that others have started lacks a jar."""
    formats = {"kafka": "the Kafka source and sink"}
    if delta:
        formats["delta"] = "Delta Lake"
    if avro:
        formats["avro"] = "Avro"
    for name, label in formats.items():
        if not has_format(there, name):
            raise SparkError(
                f"this Spark session has not {label}. Start it with the jars that `kavka spark "
                "fetch-jars` prints (spark.jars, or spark-submit --jars)"
                + (
                    " and with " + ", ".join(f"{k}={v}" for k, v in DELTA_CONFIG.items())
                    if name == "delta"
                    else ""
                )
            )


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, whose JVM is a server's."""
    return not hasattr(spark, "_jsparkSession")


def has_format(spark: SparkSession, name: str) -> bool:
    """Whether a session knows a data source of this short name.

    Judged by the error of a read without options: Spark Connect has no other way to ask.
    """
    try:
        spark.read.format(name).load().schema  # noqa: B018 (analysed when asked for its schema)
    except Exception as failure:  # of Py4J, of PySpark or of gRPC, by the session's kind
        return not any(word in str(failure) for word in UNKNOWN_FORMAT)
    return True
