"""Regular expressions of topics. What Apache Kafka says of bad ones was recorded from the library
that it uses, re2j 1.8."""

from __future__ import annotations

import pytest

from kavka.groupcoord.consumer import regexes
from kavka.groupcoord.consumer.regexes import EXPRESSION_BYTES_MAX, NAMES_A_SLICE, Resolution
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.consumer_groups import FakeTopics

BAD = {
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


@pytest.mark.parametrize("expression", BAD)
def test_bad_expressions(expression: str) -> None:
    with pytest.raises(ApiError) as refused:
        regexes.check(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {BAD[expression]}."
    )


@pytest.mark.parametrize("expression", ["", "a.*", "(?<n>a)", "\\Qa", "a{,2}", "(?i)A", "a|b"])
def test_good_expressions(expression: str) -> None:
    regexes.check(expression)


def test_an_expression_that_takes_too_much_memory_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        regexes.check("((a{100}){100}){100}")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_one_that_is_too_long_for_a_key_is_refused() -> None:
    regexes.check("a" * 10_000)
    with pytest.raises(ApiError) as refused:
        regexes.check("|" * EXPRESSION_BYTES_MAX + "\u00e4")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_costly_expression_is_held_against_few_names_in_one_go() -> None:
    topics = FakeTopics(**{f"t{number}": 1 for number in range(20)})
    resolution = Resolution(["(a?b?){900}"], topics, lambda name: True, version=1, now_ms=1)
    steps = 1
    while not resolution.advance():
        steps += 1
    assert steps == 20


def test_topics_that_match_are_told() -> None:
    told: list[str] = []
    topics = FakeTopics(a=1, ab=1, b=1)
    resolution = Resolution(
        ["a.*"], topics, lambda name: name != "ab", version=1, now_ms=1, seen=told.append
    )
    assert resolution.advance()
    assert told == ["a"]


def resolve(expressions: list[str], topics: FakeTopics, hidden: str = "") -> dict[str, list[str]]:
    resolution = Resolution(expressions, topics, lambda name: name != hidden, version=7, now_ms=5)
    while not resolution.advance():
        pass
    found = run_at_once(resolution.result())
    assert all((one.version, one.timestamp_ms) == (7, 5) for one in found.values())
    return {expression: list(one.topics) for expression, one in found.items()}


def test_whole_names_match() -> None:
    topics = FakeTopics(a=1, ab=1, ba=1, bab=1)
    assert resolve(["a.*", "b|a", "x"], topics) == {"a.*": ["a", "ab"], "b|a": ["a"], "x": []}


def test_what_the_member_may_not_see_is_left_out() -> None:
    assert resolve(["a.*"], FakeTopics(a=1, ab=1), hidden="ab") == {"a.*": ["a"]}


def test_one_that_came_out_of_a_log_and_is_bad_stands_for_nothing() -> None:
    assert resolve(["(", "a"], FakeTopics(a=1)) == {"(": [], "a": ["a"]}


def test_many_topics_are_gone_through_in_slices() -> None:
    topics = FakeTopics(**{f"t{number}": 1 for number in range(2 * NAMES_A_SLICE + 1)})
    resolution = Resolution([".*5", ".*"], topics, lambda name: True, version=1, now_ms=1)
    steps = 1
    while not resolution.advance():
        steps += 1
    assert steps == 6
    assert len(run_at_once(resolution.result())[".*"].topics) == 2 * NAMES_A_SLICE + 1


def test_topics_that_come_meanwhile_are_for_the_next_time() -> None:
    topics = FakeTopics(a=1)
    resolution = Resolution([".*"], topics, lambda name: True, version=1, now_ms=1)
    topics.make("b", 1)
    assert resolution.advance()
    assert run_at_once(resolution.result())[".*"].topics == ("a",)
    assert regexes.compiled("(") is None
