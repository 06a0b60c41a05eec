"""Every case in every version against Kavka and Apache Kafka: the answers are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential import brokers
from differential.case import Cases
from differential.cases import tables
from differential.judges import JUDGES
from differential.run import Pair, outdated, report, unexplained


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pair]]:
    """Kavka beside each judge; they run for all tests here."""
    home = tmp_path_factory.mktemp("differential")
    with brokers.judges(home, JUDGES) as judges:
        ports = {name: judge.port for name, judge in judges.items()}
        with brokers.pairs(home, ports) as running:
            yield running


@pytest.mark.parametrize("cases", tables(), ids=lambda cases: cases.api)
def test_answers_are_those_of_apache_kafka(cases: Cases, pairs: dict[str, Pair]) -> None:
    runs = list(cases.runs())
    findings = [one for pair in pairs.values() for one in pair.play(runs)]
    wrong = unexplained(findings)
    assert not wrong, "\n" + report(wrong)
    assert not outdated(cases.api, findings)
