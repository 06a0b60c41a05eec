"""Every case in every version against Kavka and Apache Kafka: the answers are the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from differential import brokers
from differential.brokers import JUDGES
from differential.run import Pair, outdated, report, unexplained
from kavka.compat_tests.raw.allowed import ALLOWED
from kavka.compat_tests.raw.case import Cases, Step
from kavka.compat_tests.raw.cases import tables
from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.judges import FIRST_IN_NEW, NEW, OLD, judge_of
from kavka.compat_tests.raw.link import Link
from support.ports import HOST
from support.process import BrokerProcess


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BrokerProcess]]:
    """Both Apache Kafkas; they run for all tests here."""
    with brokers.judges(tmp_path_factory.mktemp("judges"), JUDGES) as running:
        yield running


@pytest.fixture(scope="module")
def pairs(
    judges: dict[str, BrokerProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Pair]]:
    """Kavka beside each judge."""
    ports = {name: judge.port for name, judge in judges.items()}
    with brokers.pairs(tmp_path_factory.mktemp("kavkas"), ports) as running:
        yield running


@pytest.mark.parametrize("cases", tables(), ids=lambda cases: cases.api)
def test_answers_are_those_of_apache_kafka(cases: Cases, pairs: dict[str, Pair]) -> None:
    runs = list(cases.runs())
    findings = [finding for pair in pairs.values() for finding in pair.play(runs)]
    wrong = unexplained(findings)
    assert not wrong, "\n" + report(wrong)
    assert not outdated(cases.api, findings)


def test_the_judges_serve_what_they_judge(judges: dict[str, BrokerProcess]) -> None:
    listed = {name: served_by(judge) for name, judge in judges.items()}
    for cases in tables():
        lowest, highest = listed[NEW][cases.key]
        assert cases.last == highest, f"{cases.api} of {NEW}"
        first = FIRST_IN_NEW.get(cases.api, 0)
        # 4.3.1 lists old versions of Produce that it does not serve (KAFKA-18659)
        assert first == lowest or cases.api == "Produce", f"{cases.api} of {NEW}"
        if judge_of(cases.api, cases.first) == OLD:
            assert listed[OLD][cases.key][0] <= cases.first, f"{cases.api} of {OLD}"


def served_by(judge: BrokerProcess) -> dict[int, tuple[int, int]]:
    """{API key: (lowest, highest version)}, as it says itself."""
    api = ("ApiVersions", 0)
    with Link(HOST, judge.port) as link:
        answer = link.play(Step(wire_client.framed(wire_client.encode(*api, 1)), api))
    return {
        served["api_key"]: (served["min_version"], served["max_version"])
        for served in answer["api_keys"]
    }


def test_no_entry_of_the_list_stands_twice() -> None:
    known = {cases.api for cases in tables()}
    for entry in ALLOWED:
        assert entry.api in known, entry
        assert entry.why and entry.versions[0] <= entry.versions[1], entry
    entries = sorted(map(repr, ALLOWED))
    assert all(text != following for text, following in pairwise(entries))
