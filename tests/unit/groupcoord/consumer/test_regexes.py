"""Topic regexes. The messages for malformed ones were recorded from re2j 1.8, the library that
Apache Kafka uses."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.groupcoord.consumer import regexes
from kavka.groupcoord.consumer.regexes import EXPRESSION_BYTES_MAX, NAMES_PER_STEP, Resolution
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.consumer_groups import FakeTopics
from support.error_codes import error_code_of

MALFORMED = {
    "(": "missing closing )",
    "[": "missing closing ]",
    "a**": "invalid nested repetition operator",
    "*a": "missing argument to repetition operator",
    "a{2000}": "invalid repeat count",
    "\\": "trailing backslash at end of expression",
    "(?=a)b": "invalid or unsupported Perl syntax",
    "(?P<>a)": "invalid named capture",
    "[z-a]": "invalid character class range",
    "a)": "regexp/syntax: internal error",
    "\\8": "invalid escape sequence",
    "[[:foo:]]": "invalid character class range",
    "\\pX": "invalid character class range",
}


@pytest.mark.parametrize("expression", MALFORMED)
def test_malformed_regexes(expression: str) -> None:
    with pytest.raises(ApiError) as refused:
        regexes.check(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{expression}` is not a valid regular expression: "
        f"{MALFORMED[expression]}."
    )


@pytest.mark.parametrize(
    "expression", ["", "a.*", "(?<n>a)", "\\Qa", "a{,2}", "(?i)A", "a|b", "a" * 10_000]
)
def test_valid_regexes(expression: str) -> None:
    regexes.check(expression)


@pytest.mark.parametrize(
    "expression",
    ["((a{100}){100}){100}", "|" * EXPRESSION_BYTES_MAX + "\u00e4"],
    ids=["too much memory", "too long for a key"],
)
def test_regexes_beyond_the_limits(expression: str) -> None:
    assert error_code_of(regexes.check, expression) is ErrorCode.INVALID_REGULAR_EXPRESSION


def resolution_of(expressions: list[str], topics: FakeTopics, **more: Any) -> Resolution:
    values: dict[str, Any] = {"may_see": lambda name: True, "version": 7, "now_ms": 5, **more}
    return Resolution(expressions, topics, **values)


def steps_of(resolution: Resolution) -> int:
    """Finish it; the number of its steps."""
    steps = 1
    while not resolution.advance():
        steps += 1
    return steps


def resolve(expressions: list[str], topics: FakeTopics, **more: Any) -> dict[str, list[str]]:
    resolution = resolution_of(expressions, topics, **more)
    steps_of(resolution)
    found = run_at_once(resolution.result())
    assert all((regex.version, regex.timestamp_ms) == (7, 5) for regex in found.values())
    return {expression: list(regex.topics) for expression, regex in found.items()}


def test_whole_names_match() -> None:
    topics = FakeTopics(a=1, ab=1, ba=1, bab=1)
    assert resolve(["a.*", "b|a", "x"], topics) == {"a.*": ["a", "ab"], "b|a": ["a"], "x": []}


def test_only_topics_that_the_member_may_describe_match() -> None:
    seen: list[str] = []
    topics = FakeTopics(a=1, ab=1, b=1)
    found = resolve(["a.*"], topics, may_see=lambda name: name != "ab", seen=seen.append)
    assert found == {"a.*": ["a"]}
    assert seen == ["a"]


def test_a_malformed_regex_in_a_log_matches_nothing() -> None:
    assert resolve(["(", "a"], FakeTopics(a=1)) == {"(": [], "a": ["a"]}
    assert regexes.compiled("(") is None


def test_topics_are_matched_in_steps() -> None:
    topics = FakeTopics(**{f"t{number}": 1 for number in range(2 * NAMES_PER_STEP + 1)})
    resolution = resolution_of([".*5", ".*"], topics)
    assert steps_of(resolution) == 6
    assert len(run_at_once(resolution.result())[".*"].topics) == 2 * NAMES_PER_STEP + 1
    few = FakeTopics(**{f"t{number}": 1 for number in range(20)})
    assert steps_of(resolution_of(["(a?b?){900}"], few)) == 20, "a regex that takes long"


def test_topics_that_are_created_during_a_resolution_are_for_the_next_one() -> None:
    topics = FakeTopics(a=1)
    resolution = resolution_of([".*"], topics)
    topics.create("b", 1)
    assert resolution.advance()
    assert run_at_once(resolution.result())[".*"].topics == ("a",)
