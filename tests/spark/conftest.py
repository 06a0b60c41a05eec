"""Spark and brokers for the tests of this directory: one JVM of Spark, one Kavka and at most one
Apache Kafka in a pytest process.

A test that asks for `broker` runs against Kavka, and with SPARK=whole in the environment (`make
spark`) against Apache Kafka too, with the same assertions. Two marks say otherwise:

- `@pytest.mark.oracle`: against Apache Kafka in the short form too;
- `@pytest.mark.whole`: only with SPARK=whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from support import java
from support.broker import Kavka, finish
from support.oracle import ApacheKafka
from support.paths import CACHE
from support.process import BrokerProcess
from support.spark import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.retention.ms": "-1",  # else records of long ago go at once
    "log.segment.delete.delay.ms": "0",
}
"""Of both brokers: what a test waits for happens soon, and nothing that it did not ask for."""

SPARK_CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # else 50 tasks a look at a table
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short runs
}

DEPRECATED_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"

SHORT_CONFIG: Final = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""In the short form Spark interprets its plans: to compile them takes a third of the time."""

KINDS: Final[dict[str, type[BrokerProcess]]] = {"kavka": Kavka, "apache": ApacheKafka}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "oracle: against Apache Kafka in the short form too")
    config.addinivalue_line("markers", "whole: only with SPARK=whole (make spark)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" in metafunc.fixturenames:
        both = whole() or metafunc.definition.get_closest_marker("oracle") is not None
        kinds = list(KINDS) if both else ["kavka"]
        metafunc.parametrize("broker", kinds, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not whole():
        left_out = [item for item in items if item.get_closest_marker("whole") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in this process: local[2], with the Kafka connector, Avro and Delta Lake."""
    java.program("java")
    from kavka.spark_it import session

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAVKA_SPARK_JARS", str(CACHE / "spark"))
        patched.delenv("SPARK_REMOTE", raising=False)
        config = {
            **SPARK_CONFIG,
            **({} if whole() else SHORT_CONFIG),
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        }
        made = session("tests", master="local[2]", delta=True, avro=True, config=config)
        yield made
        made.stop()


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], BrokerProcess]]:
    """The broker of a kind: started when first asked for, and again if a test left it dead."""
    started: dict[str, BrokerProcess] = {}

    def get(kind: str) -> BrokerProcess:
        if kind == "apache":
            java.kafka_libs()  # without Java the test is skipped
        if kind not in started:
            started[kind] = KINDS[kind](tmp_path_factory.mktemp(kind), SETTINGS)
        broker = started[kind]
        return broker if broker.process is not None else broker.start()

    with contextlib.ExitStack() as ends:
        yield get
        for broker in started.values():
            ends.callback(finish, broker)


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, brokers: Callable[[str], BrokerProcess]
) -> BrokerProcess:
    """The broker under test, shared by all tests of this process. One that kills it starts it
    again on its data; topics are a test's own."""
    return brokers(request.param)


@pytest.fixture
def deprecated_fetching(spark: SparkSession) -> Iterator[None]:
    """Spark asks for offsets as it did before version 3.1: with a consumer in a group."""
    spark.conf.set(DEPRECATED_FETCHING, "true")
    yield
    spark.conf.unset(DEPRECATED_FETCHING)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses. The test creates it."""
    name = f"{request.node.path.stem}-{request.node.name}"
    return "".join(char if char.isalnum() else "-" for char in name).strip("-")
