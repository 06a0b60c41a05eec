"""The tests of Spark's own Kafka connector, as its project has compiled them, on a broker that they
did not start: see `support.spark_suites`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from support import spark_suites
from support.broker import finish
from support.paths import CACHE
from support.process import BrokerProcess

SUITE_TIMEOUT_S: Final = 2500

NEEDS_SETTINGS: Final = "a broker with settings of its own"
"""Why a test cannot run here: retention is to take all that is not of this millisecond."""

SUITES: Final[dict[str, dict[str, str]]] = {
    "ConsumerStrategySuite": {},
    "KafkaContinuousSinkSuite": {},
    "KafkaContinuousSourceTopicDeletionSuite": {},
    "KafkaOffsetReaderSuite": {},
    "KafkaRelationSuiteV1": {"test late binding start offsets": NEEDS_SETTINGS},
    "KafkaRelationSuiteWithAdminV2": {"test late binding start offsets": NEEDS_SETTINGS},
    "KafkaSinkBatchSuiteV1": {},
    "KafkaSinkBatchSuiteV2": {},
    "KafkaSinkMicroBatchStreamingSuite": {},
    "KafkaSourceStressSuite": {},
    "consumer.KafkaDataConsumerSuite": {},
}
"""A suite, and its tests that cannot run on a broker outside, with what they say."""

NO_TOPIC_BY_ITSELF: Final = ("Sink", "Stress", "TopicDeletion")
"""In the names of suites that want a broker without `auto.create.topics.enable`. Others rely on
it."""

LONG: Final = ("KafkaContinuousSourceSuite", "KafkaMicroBatchV2SourceWithAdminSuite")
"""Some of their tests wait for minutes for something that must not come."""

StartForSuite = Callable[[str, str], BrokerProcess]
"""Of a kind, for a suite."""


@pytest.fixture
def start_for_suite(
    brokers: Callable[[str], BrokerProcess], tmp_path: Path
) -> Iterator[StartForSuite]:
    """A broker of a kind for one suite alone: suites delete all topics."""
    started: list[BrokerProcess] = []

    def start(kind: str, suite: str) -> BrokerProcess:
        shared = brokers(kind)
        creates = not any(word in suite for word in NO_TOPIC_BY_ITSELF)
        settings = {**shared.settings, "auto.create.topics.enable": str(creates).lower()}
        started.append(type(shared)(tmp_path / "broker", settings))
        return started[-1].start()

    yield start
    for broker in started:
        finish(broker)


@pytest.fixture(autouse=True)
def jars_in_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAVKA_SPARK_JARS", str(CACHE / "spark"))


def check(suite: str, broker: BrokerProcess, home: Path) -> None:
    """Run a suite: all its tests pass but those that cannot run here."""
    outcome = spark_suites.run(suite, broker.bootstrap, home)
    cannot_run = SUITES.get(suite, {})
    unexpected = {
        name: why
        for name, why in outcome.failed.items()
        if name not in cannot_run or cannot_run[name] not in why
    }
    assert not unexpected
    assert outcome.passed
    assert outcome.failed.keys() == cannot_run.keys(), "some can run now"


@pytest.mark.whole
@pytest.mark.timeout(SUITE_TIMEOUT_S)
@pytest.mark.parametrize("kind", ["kavka", "apache"])
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_of_the_connector(
    suite: str,
    kind: str,
    start_for_suite: StartForSuite,
    tmp_path: Path,
) -> None:
    check(suite, start_for_suite(kind, suite), tmp_path / "suite")


@pytest.mark.whole
@pytest.mark.timeout(SUITE_TIMEOUT_S)
@pytest.mark.parametrize("suite", LONG)
def test_a_long_suite_of_the_connector(
    suite: str, start_for_suite: StartForSuite, tmp_path: Path
) -> None:
    """On Kavka alone: on Apache Kafka, Spark's project runs them itself."""
    check(suite, start_for_suite("kavka", suite), tmp_path / "suite")
