"""Judging a broker's answers by recorded ones, without a broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.compat_tests.raw import checking
from kavka.compat_tests.raw.accepted import ACCEPTED, is_accepted
from kavka.compat_tests.raw.case import Case, Cases, Facts, Ground, NotPlayable, Outcome, Topic
from kavka.compat_tests.raw.checking import NOT_RECORDED, STOPPED, ApiCheck, failures_of
from kavka.compat_tests.raw.outcomes import ApiOutcome, Failure, Verdict
from kavka.compat_tests.raw.playing import Played
from kavka.compat_tests.raw.recording import Answers, Recording, Unstable
from kavka.compat_tests.raw.restoring import Before

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
        ("throttle_time_ms", 7, 0, True),
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

    def __init__(self, *asked: object) -> None:
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


def outcomes(*names: str, stopped: bool = False, topics: tuple[Topic, ...] = ()) -> Any:
    cases = Cases("Heartbeat")
    for name in names:
        cases.add(name, lambda on: {}, topics=topics)
    stop = threading.Event()
    if stopped:
        stop.set()
    found: Mapping[int, ApiOutcome] = {
        one.version: one for one in ApiCheck(cases, FACTS, stop).run()
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
