"""Recorded answers as files, and what the package has of them."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.compat_tests.raw.case import Facts, Outcome
from kavka.compat_tests.raw.cases import tables
from kavka.compat_tests.raw.compare import Side, differences, made_alike
from kavka.compat_tests.raw.judges import judge_of
from kavka.compat_tests.raw.playing import Played
from kavka.compat_tests.raw.recording import (
    PLACEHOLDER,
    Answers,
    Recording,
    Unstable,
    from_bytes,
    load,
    new_prefix,
    to_bytes,
)

PREFIX = "raw-0a1b2c-"
ANSWER = {
    "name": f"{PREFIX}topic",
    "records": f"of {PREFIX}topic".encode(),
    "topic_id": UUID(int=7 << 64),
    "codes": [0, -1, None, True, 1.5, "ä\ufffd"],
    f"{PREFIX}key": b"\0\xff",
}
RECORDING = Recording(
    "4.3.1",
    "Fetch",
    1_700_000_000_000,
    PREFIX,
    {
        ("a case", 4): Answers([Played("Fetch", ANSWER), Played("Metadata", Outcome.CLOSED)]),
        ("a case", 5): Answers([], [Unstable(1, f"{PREFIX}topic")]),
    },
)
UNSTABLE_MAX = 100
BYTES_MAX = 1_000_000


def test_what_was_written_is_read_again() -> None:
    assert from_bytes(to_bytes(RECORDING), PREFIX) == RECORDING


def test_the_same_recording_gives_the_same_bytes() -> None:
    runs = dict(reversed(list(RECORDING.runs.items())))
    again = Recording("4.3.1", "Fetch", RECORDING.recorded_ms, PREFIX, runs)
    assert to_bytes(again) == to_bytes(RECORDING)


def test_names_get_the_prefix_of_the_run_also_in_bytes() -> None:
    other = from_bytes(to_bytes(RECORDING), "raw-ffffff-")
    answer = other.runs["a case", 4].played[0].answer
    assert answer["name"] == "raw-ffffff-topic"
    assert answer["records"] == b"of raw-ffffff-topic"
    assert answer["raw-ffffff-key"] == b"\0\xff"
    assert other.runs["a case", 5].unstable[0].path == "raw-ffffff-topic"


def test_all_prefixes_have_one_length() -> None:
    first, second = new_prefix(), new_prefix()
    assert first != second
    assert len(first) == len(second) == len(PLACEHOLDER)


def test_what_is_no_plain_value_is_refused() -> None:
    odd = Recording("4.3.1", "Fetch", 0, PREFIX, {("a", 1): Answers([Played("Fetch", {1.5})])})
    with pytest.raises(TypeError, match="no plain value"):
        to_bytes(odd)


def test_an_unstable_field_covers_all_below_it() -> None:
    answers = Answers([], [Unstable(2, "topics.0"), Unstable(3, "")])
    assert answers.is_unstable(2, "topics.0")
    assert answers.is_unstable(2, "topics.0.name")
    assert answers.is_unstable(3, "anything")
    for step, path in ((1, "topics.0"), (2, "topics.01"), (2, "topics")):
        assert not answers.is_unstable(step, path)


def test_what_was_made_alike_stays_so_and_equals_the_answer_of_another_broker() -> None:
    first_facts = Facts("one", 1001, 1, "a", {"t": UUID(int=10)}, PREFIX)
    second_facts = Facts("two", 1002, 7, "b", {"t": UUID(int=20)}, PREFIX)
    answers = (
        {
            "cluster_id": facts.cluster_id,
            "brokers": [{"node_id": facts.broker_id, "host": facts.host, "port": facts.port}],
            "topics": [{"name": "t", "topic_id": facts.ids["t"]}],
        }
        for facts in (first_facts, second_facts)
    )
    first, second = answers
    alike = made_alike("Metadata", Side(first, first_facts))
    nobody = RECORDING.facts
    assert made_alike("Metadata", Side(alike, nobody)) == alike
    assert not list(differences("Metadata", Side(second, second_facts), Side(alike, nobody)))
    other = {**second, "topics": [{"name": "u", "topic_id": UUID(int=20)}]}
    (found,) = differences("Metadata", Side(other, second_facts), Side(alike, nobody))
    assert (found.path, found.answered, found.expected) == ("topics.0.name", "u", "t")


def test_times_of_the_recording_are_times_of_the_check() -> None:
    now = Facts("one", 1, 1, "a", prefix=PREFIX)
    answered = {"log_append_time_ms": now.now_ms}
    recorded = {"log_append_time_ms": RECORDING.recorded_ms}
    sides = Side(answered, now), Side(recorded, RECORDING.facts)
    assert not list(differences("Produce", *sides))


# -- the package's own ------------------------------------------------------------------------


def test_every_case_has_a_recorded_answer_in_every_version() -> None:
    for cases in tables():
        runs = {(case.name, version) for case, version in cases.runs()}
        judges = {judge_of(cases.api, version) for _, version in runs}
        found = [load(judge, cases.api, PREFIX) for judge in sorted(judges)]
        recorded = {run for recording in found if recording is not None for run in recording.runs}
        hint = "record again: see kavka.compat_tests.raw.record"
        assert recorded == runs, f"{cases.api}: {hint}: {sorted(recorded ^ runs)[:5]}"


def test_little_is_unstable_and_the_files_are_small() -> None:
    unstable = size = 0
    for cases in tables():
        for judge in {judge_of(cases.api, version) for _, version in cases.runs()}:
            recording = load(judge, cases.api, PREFIX)
            assert recording is not None
            size += len(to_bytes(recording))
            unstable += sum(bool(answers.unstable) for answers in recording.runs.values())
    assert unstable <= UNSTABLE_MAX
    assert size <= BYTES_MAX
