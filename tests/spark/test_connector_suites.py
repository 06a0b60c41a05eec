"""The tests of Spark's own Kafka connector, as its project has compiled them, on a broker that they
did not start: see `support.spark_suites`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support import spark_suites
from support.broker import finish
from support.paths import CACHE
from support.process import BrokerProcess

SUITE_TIMEOUT_S: Final = 1300

LATE: Final = "a broker with settings of its own"
"""Why a test cannot run: its broker is to have segments of 70 bytes, for instance."""

SUITES: Final[dict[str, dict[str, str]]] = {
    "KafkaRelationSuiteWithAdminV2": {"test late binding start offsets": LATE},
    "KafkaOffsetReaderSuite": {},
}
"""A suite, and its tests that cannot run on a broker outside, with what they say."""


@pytest.fixture
def empty_broker(broker: BrokerProcess, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the kind under test for one suite alone: suites delete all topics."""
    own = type(broker)(tmp_path / "broker", broker.settings)
    try:
        yield own.start()
    finally:
        finish(own)


@pytest.mark.whole
@pytest.mark.timeout(SUITE_TIMEOUT_S)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_of_the_connector(
    suite: str, empty_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAVKA_SPARK_JARS", str(CACHE / "spark"))
    outcome = spark_suites.run(suite, empty_broker.bootstrap, tmp_path / "suite")
    cannot_run = SUITES[suite]
    unexpected = {
        name: why
        for name, why in outcome.failed.items()
        if name not in cannot_run or cannot_run[name] not in why
    }
    assert not unexpected
    assert outcome.passed
    assert outcome.failed.keys() == cannot_run.keys(), "these run now"
