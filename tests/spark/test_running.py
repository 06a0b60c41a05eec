"""How several queries of a pipeline end; the queries here are played."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kavka.spark_it import SparkError
from kavka.spark_it.common_options import StreamingOptions
from kavka.spark_it.running import Query, wait_for_queries

WITHIN_S = 30.0


class Played:
    """A streaming query that ends when it has read all, when it is stopped, or by a failure."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waited_for = threading.Event()
        self.ended = threading.Event()
        self.stopped = False
        self.failure: PySparkException | None = None

    def stop(self) -> None:
        self.stopped = self.stopped or not self.ended.is_set()
        self.ended.set()

    def awaitTermination(self) -> None:  # noqa: N802 (Spark's name)
        self.waited_for.set()
        assert self.ended.wait(WITHIN_S)
        if self.failure is not None:
            raise self.failure

    def fail(self) -> None:
        self.failure = PySparkException("no space left")
        self.ended.set()


def options(trigger: str) -> StreamingOptions:
    return StreamingOptions(
        bootstrap_server="x:1", topics=("t",), trigger=trigger, interval="1 second"
    )


def wait_for(queries: list[Played], trigger: str) -> None:
    of_any_type: Any = queries
    wait_for_queries(of_any_type, options(trigger))


@pytest.mark.parametrize("first", [0, 1])
def test_with_available_now_all_are_waited_for(first: int) -> None:
    queries = [Played("main"), Played("rejects")]
    queries[first].ended.set()
    ending = threading.Timer(0.05, queries[1 - first].ended.set)
    ending.start()
    wait_for(queries, "available-now")
    assert not queries[0].stopped and not queries[1].stopped


@pytest.mark.parametrize("first", [0, 1])
def test_with_continuous_the_end_of_one_stops_the_other(first: int) -> None:
    queries = [Played("main"), Played("rejects")]
    queries[first].ended.set()
    wait_for(queries, "continuous")
    assert queries[1 - first].stopped


@pytest.mark.parametrize("trigger", ["available-now", "continuous"])
@pytest.mark.parametrize("first", [0, 1])
def test_the_failure_of_one_stops_the_other_and_is_reported(first: int, trigger: str) -> None:
    queries = [Played("main"), Played("rejects")]
    queries[first].fail()
    expected = f"the query {queries[first].name} failed: no space left"
    with pytest.raises(SparkError, match=expected):
        wait_for(queries, trigger)
    assert queries[1 - first].stopped


@pytest.mark.parametrize("trigger", ["available-now", "continuous"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all(number: signal.Signals, trigger: str) -> None:
    queries = [Played("main"), Played("rejects")]

    def send() -> None:
        assert queries[0].waited_for.wait(WITHIN_S)  # only then the signals are handled
        os.kill(os.getpid(), number)

    sending = threading.Thread(target=send)
    sending.start()
    wait_for(queries, trigger)
    sending.join()
    assert queries[0].stopped and queries[1].stopped


class Writer:
    """A DataStreamWriter that records how it is set up."""

    def __init__(self, failure: PySparkException | None = None) -> None:
        self.settings: dict[str, Any] = {}
        self.query = Played("q")
        self._failure = failure

    def queryName(self, name: str) -> Writer:  # noqa: N802 (Spark's name)
        self.settings["name"] = name
        return self

    def option(self, name: str, value: str) -> Writer:
        self.settings[name] = value
        return self

    def trigger(self, **trigger: Any) -> Writer:
        self.settings |= trigger
        return self

    def start(self) -> Played:
        if self._failure is not None:
            raise self._failure
        return self.query


@pytest.mark.parametrize(
    ("trigger", "as_spark_has_it"),
    [
        ("available-now", {"availableNow": True}),
        ("continuous", {"processingTime": "1 second"}),
    ],
)
def test_a_query_starts_with_name_checkpoint_and_trigger(
    trigger: str, as_spark_has_it: dict[str, Any]
) -> None:
    writer: Any = Writer()
    Query("q", writer, "there").start(options(trigger))
    assert writer.settings == {"name": "q", "checkpointLocation": "there", **as_spark_has_it}


def test_a_query_that_spark_refuses_says_so() -> None:
    writer: Any = Writer(PySparkException("no such table"))
    with pytest.raises(SparkError, match="the query q does not start: no such table"):
        Query("q", writer, "there").start(options("continuous"))
