"""Judging a broker's answers by recorded ones, without a broker."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from kavka.compat_tests.raw import allowed, checking
from kavka.compat_tests.raw.accepted import ACCEPTED, is_accepted
from kavka.compat_tests.raw.allowed import ANYTHING, Allowed
from kavka.compat_tests.raw.case import (
    Case,
    Cases,
    Facts,
    Ground,
    NotPlayable,
    Outcome,
    Step,
    Topic,
)
from kavka.compat_tests.raw.cases import create_topics
from kavka.compat_tests.raw.checking import (
    NOT_RECORDED,
    SLOW_BEFORE,
    STOPPED,
    ApiCheck,
    failures_of,
)
from kavka.compat_tests.raw.judges import JUDGES, OLD
from kavka.compat_tests.raw.outcomes import ApiOutcome, Failure, Verdict
from kavka.compat_tests.raw.playing import Played
from kavka.compat_tests.raw.recording import Answers, Recording, Unstable
from kavka.compat_tests.raw.restoring import Before
from kavka.compat_tests.raw.survey import limits_partitions, offered_by

CASE = Case("Heartbeat", "a case", lambda on: {}, 0, 4, ())
FACTS = Facts("here", 9092, 1, "a", prefix="raw-000000-", offered={"Heartbeat": (1, 3)})


def recording(*answers: Any, unstable: tuple[Unstable, ...] = ()) -> Recording:
    played = [Played("Heartbeat", answer) for answer in answers]
    runs = {("a case", version): Answers(played, unstable) for version in range(5)}
    return Recording("4.3.1", "Heartbeat", 0, FACTS.prefix, runs)


def failures(recorded: Recording, *answers: Any) -> list[Failure]:
    played = [Played("Heartbeat", answer) for answer in answers]
    return list(failures_of(FACTS, recorded, CASE, 2, played))


def test_the_failing_step_field_and_both_values_are_named() -> None:
    (found,) = failures(recording({"a": 1}, {"b": [1]}), {"a": 1}, {"b": [2]})
    assert found == Failure("a case", 2, "Heartbeat", "b.0", 2, 1)
    assert str(found) == "'a case', step 2 (Heartbeat), b.0: 2, Apache Kafka: 1"


def test_a_difference_on_purpose_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Allowed("Heartbeat", "a *", (1, 3), "a.*", 2, ANYTHING, "it is so")
    monkeypatch.setattr(allowed, "ALLOWED", (entry,))
    known, new = failures(recording({"a": [1], "b": 1}), {"a": [2], "b": 2})
    assert (known.field, known.why) == ("a", "it is so")
    assert (new.field, new.why) == ("b", None)
    (other,) = failures(recording({"a": [1]}), {"a": [3]})
    assert other.why is None, "another value than Kavka's"


def test_what_is_offered_beyond_the_cases_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = {"Heartbeat": (1, 6), "CreateAcls": (2, 3), "key 999": (0, 0), "Fetch": (4, 18)}
    facts = replace(FACTS, offered=offered)
    monkeypatch.setattr(checking, "survey", lambda *args: facts)
    monkeypatch.setattr(checking, "ApiCheck", lambda *args: Mock(run=list))
    heard: list[ApiOutcome] = []
    found = checking.check_now("here:1", on_api=heard.extend)
    assert found == heard
    assert [(outcome.api, outcome.version) for outcome in found] == [
        ("CreateAcls", 2),
        ("CreateAcls", 3),
        ("Heartbeat", 5),
        ("Heartbeat", 6),
        ("key 999", 0),
    ]
    assert {outcome.verdict for outcome in found} == {Verdict.NO_CASES}
    assert not checking.check_now("here:1", ["Heartbeat"]), "only these were asked for"


def test_a_check_that_is_stopped_says_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    checked: list[str] = []

    class Check:
        def __init__(self, cases: Cases, *more: object) -> None:
            self.api = cases.api

        def run(self) -> list[ApiOutcome]:
            checked.append(self.api)
            if len(checked) == 2:
                stop.set()
            return [ApiOutcome(self.api, 0, Verdict.PASSED)]

    monkeypatch.setattr(checking, "survey", lambda *args: FACTS)
    monkeypatch.setattr(checking, "ApiCheck", Check)
    heard: list[ApiOutcome] = []
    checking.check_now("here:1", on_api=heard.extend, stop=stop)
    assert len(checked) == 2
    assert [outcome.api for outcome in heard] == checked[:1]


def test_apis_are_named_that_have_no_cases() -> None:
    keys = [{"api_key": key, "min_version": 0, "max_version": 1} for key in (12, 17, 999)]
    link: Any = Mock(play=lambda step: {"api_keys": keys})
    named = {"Heartbeat": (0, 1), "SaslHandshake": (0, 1), "key 999": (0, 1)}
    assert offered_by(link) == named


def test_a_closed_connection_and_a_missing_step_are_failures() -> None:
    closed, missing = failures(recording({"a": 1}, {"b": 1}), Outcome.CLOSED)
    assert (closed.path, closed.answered, closed.expected) == ("", Outcome.CLOSED, {"a": 1})
    assert (missing.step, missing.expected) == (2, {"b": 1})


def test_what_is_unstable_is_not_compared() -> None:
    recorded = recording({"a": {"b": 1}, "c": 1}, unstable=(Unstable(1, "a"),))
    (found,) = failures(recorded, {"a": {"b": 2}, "c": 2})
    assert found.path == "c"


@pytest.mark.parametrize(
    ("path", "answered", "expected", "accepted"),
    [
        ("error_message", "No.", None, True),
        ("topics.0.error_message", "No.", "Nope.", True),
        ("throttle_time_ms", 7, 0, False),
        ("error_code", 42, -1, True),
        ("error_code", 0, -1, False),
        ("error_code", 42, 41, False),
        ("", {"error_code": 0}, Outcome.TIMED_OUT, True),
        ("", Outcome.TIMED_OUT, {"error_code": 0}, False),
        ("topics.0.records.batches.0.packed", "00", "01", True),
        ("topics.0.records.batches.0.payload", "00", "01", False),
    ],
)
def test_what_is_right_as_well(path: str, answered: Any, expected: Any, accepted: bool) -> None:
    failure = Failure("a case", 1, "Heartbeat", path, answered, expected)
    assert is_accepted("Heartbeat", 2, failure) == accepted


def test_every_entry_has_a_reason_and_stands_once() -> None:
    assert all(entry.why for entry in ACCEPTED)
    assert len({repr(entry) for entry in ACCEPTED}) == len(ACCEPTED)


# -- a whole API ------------------------------------------------------------------------------


class Nothing:
    """Instead of a caretaker."""

    def __init__(self, *args: object) -> None:
        self.restored = False

    def before(self) -> Before:
        return Before({}, {})

    def restore(self, before: Before) -> None:
        self.restored = True

    def clear(self) -> None:
        assert self.restored


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker is asked: every script is answered by its version."""

    def answered(on: Ground) -> list[Played]:
        if on.version == 3:
            raise NotPlayable("something is missing")
        return [Played("Heartbeat", {"error_code": on.version})]

    monkeypatch.setattr(checking, "Caretaker", Nothing)
    monkeypatch.setattr(checking, "prepare", lambda facts, runs: facts)
    monkeypatch.setattr(checking, "played", answered)
    monkeypatch.setattr(checking, "load", lambda *which: recording({"error_code": 1}))


def outcomes(
    *names: str,
    stopped: bool = False,
    topics: tuple[Topic, ...] = (),
    judges: tuple[str, ...] = JUDGES,
) -> Any:
    cases = Cases("Heartbeat")
    for name in names:
        cases.add(name, lambda on: {}, topics=topics)
    stop = threading.Event()
    if stopped:
        stop.set()
    found: Mapping[int, ApiOutcome] = {
        outcome.version: outcome for outcome in ApiCheck(cases, FACTS, stop, judges).run()
    }
    return found


@pytest.mark.usefixtures("alone")
def test_versions_pass_fail_are_left_out_or_not_offered() -> None:
    found = outcomes("a case")
    verdicts = [found[version].verdict for version in range(5)]
    none, out = Verdict.NOT_OFFERED, Verdict.LEFT_OUT
    assert verdicts == [none, Verdict.PASSED, Verdict.FAILED, out, none]
    assert found[2].failures == [Failure("a case", 1, "Heartbeat", "error_code", 2, 1)]
    assert found[3].left_out == {"something is missing": 1}


@pytest.mark.usefixtures("alone")
def test_cases_without_a_recorded_answer_are_counted() -> None:
    found = outcomes("a case", "a new case")
    assert found[1].left_out == {NOT_RECORDED: 1}
    assert (found[1].played, found[1].verdict) == (1, Verdict.PASSED)


@pytest.mark.usefixtures("alone")
def test_a_check_that_is_stopped_plays_no_more() -> None:
    assert outcomes("a case", stopped=True)[1].left_out == {STOPPED: 1}


@pytest.mark.usefixtures("alone")
def test_what_an_earlier_version_must_have_left_is_not_played_without_it() -> None:
    found = outcomes("a case", topics=(Topic(kept=True),))
    assert found[1].left_out == {"it builds on version 0": 1}


@pytest.mark.usefixtures("alone")
def test_what_another_release_judges_is_left_out() -> None:
    found = outcomes("a case", judges=(OLD,))
    assert {found[version].verdict for version in (1, 2, 3)} == {Verdict.LEFT_OUT}
    assert found[1].left_out == {"Apache Kafka 4.3.1 judges it": 1}


@pytest.mark.usefixtures("alone")
def test_a_case_that_took_long_is_not_played_in_later_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "SLOW_S", -1.0)  # every case does
    found = outcomes("a case")
    assert [found[version].played for version in (1, 2, 3)] == [1, 0, 0]
    assert found[2].left_out == found[3].left_out == {SLOW_BEFORE: 1}


MANY = (
    "wrong: 10001 partitions, 1 replicas",
    "wrong: 2147483647 partitions, 1 replicas",
    "wrong: 20000 partitions, 0 replicas",
    "too many partitions in all",
)


@pytest.mark.parametrize("name", MANY)
def test_no_broker_is_made_to_create_too_many_partitions(name: str) -> None:
    (case,) = [case for case in create_topics.CASES.cases if case.name == name]
    facts = replace(FACTS, ids={"raw-000000-CreateTopics-shared-there.topic": UUID(int=1)})
    script = case.function(Ground(case, 5, facts))
    assert isinstance(script, Generator) and isinstance(next(script), Step)
    script = case.function(Ground(case, 5, replace(facts, limits_partitions=False)))
    assert isinstance(script, Generator)
    with pytest.raises(NotPlayable, match="more than 10000 partitions"):
        next(script)


@pytest.mark.parametrize(
    ("answer", "limited"),
    [
        ({"topics": [{"error_code": 0}]}, False),
        ({"topics": [{"error_code": 37}]}, True),
        (Outcome.CLOSED, True),
    ],
)
def test_whether_a_broker_limits_partitions_is_asked_without_making_them(
    answer: Any, limited: bool
) -> None:
    steps: list[Step] = []

    class RecordingLink:
        def play(self, step: Step) -> Any:
            steps.append(step)
            return answer

    link: Any = RecordingLink()
    assert limits_partitions(link, "raw-000000-") is limited
    (step,) = steps
    assert (10_001).to_bytes(4) in step.frame
    assert step.frame.endswith(b"\x01\x00"), "validate_only, and no tagged fields"
