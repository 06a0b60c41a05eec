"""A second query beside a pipeline's own; the queries here are played."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.errors import PySparkException

from kavka.spark_it import SparkError
from kavka.spark_it.beside import beside
from kavka.spark_it.common_options import StreamingOptions

WITHIN_S = 30.0


class Query:
    """A streaming query that ends when it is stopped, or fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = threading.Event()
        self.stopped = False
        self.failure: PySparkException | None = None

    def stop(self) -> None:
        self.stopped = True
        self.ended.set()

    def awaitTermination(self) -> None:  # noqa: N802 (Spark's name)
        assert self.ended.wait(WITHIN_S)
        if self.failure is not None:
            raise self.failure

    def fail(self) -> None:
        self.failure = PySparkException("no space left")
        self.ended.set()


class Session:
    """Spark, as far as `beside` uses it, and the writer of its second query."""

    def __init__(self) -> None:
        self.second = Query("second")
        self.active: list[Query] = []
        self.settings: dict[str, Any] = {}

    @property
    def streams(self) -> Session:
        return self

    def queryName(self, name: str) -> Session:  # noqa: N802 (Spark's name)
        self.settings["name"] = name
        return self

    def option(self, name: str, value: str) -> Session:
        self.settings[name] = value
        return self

    def trigger(self, **trigger: Any) -> Session:
        self.settings |= trigger
        return self

    def start(self) -> Query:
        return self.second


def options(trigger: str) -> StreamingOptions:
    return StreamingOptions(
        bootstrap_server="x:1", topics=("t",), trigger=trigger, interval="1 second"
    )


def run_beside(session: Any, trigger: str) -> Any:
    return beside(session, "second", options(trigger), session, "there", main="main")


def test_with_available_now_it_is_waited_for() -> None:
    session = Session()
    ending = threading.Timer(0.05, session.second.ended.set)
    with run_beside(session, "available-now"):
        ending.start()
    assert session.second.ended.is_set() and not session.second.stopped
    assert session.settings == {
        "name": "second",
        "checkpointLocation": "there",
        "availableNow": True,
    }


def test_with_continuous_it_is_stopped() -> None:
    session = Session()
    with run_beside(session, "continuous"):
        assert not session.second.stopped
    assert session.second.stopped
    assert session.settings["processingTime"] == "1 second"


def test_it_is_stopped_when_the_main_query_fails() -> None:
    session = Session()
    with pytest.raises(SparkError, match="main"), run_beside(session, "available-now"):
        raise SparkError("main")
    assert session.second.stopped


def test_when_it_fails_the_main_query_is_stopped() -> None:
    session = Session()
    main, other = Query("main"), Query("other")
    with (
        pytest.raises(SparkError, match="the query second failed: no space left"),
        run_beside(session, "continuous"),
    ):
        session.second.fail()  # even before the main query has started
        session.active = [other, main]
        main.awaitTermination()
    assert main.stopped and not other.stopped
