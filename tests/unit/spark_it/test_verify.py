"""The options of verify, before Spark is there."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.comparing import Finding, Place, Report
from kavka.spark_it.pipelines import verify

BOTH = {"topics": ("a",), "second_topics": ("b",)}


def options(**given: Any) -> verify.Options:
    return verify.Options(**{"bootstrap_server": "one:1", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the first side is either topics, topic_pattern or table"),
        ({"topics": ("a",), "table": "b"}, "the first side is either"),
        ({"topics": ("a",)}, r"the second side is either second_topics, .* \(--second-topics"),
        ({**BOTH, "compare": ("valu",)}, "no part valu, did you mean value"),
        ({**BOTH, "compare": ()}, "compare is empty"),
        ({**BOTH, "starting": '{"a": {"0": 3}}'}, "give second_starting too"),
        ({**BOTH, "ending": '{"a": {"0": 3}}'}, "give second_ending too"),
        ({**BOTH, "examples_max": -1}, "examples_max is -1"),
    ],
)
def test_options_that_make_no_sense(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SparkError, match=said):
        options(**given)


def test_the_second_side_is_of_the_same_cluster_unless_it_is_said() -> None:
    kafka = {"security.protocol": "SSL"}
    same = options(**BOTH, kafka=kafka, starting="latest", isolation_level="read_uncommitted")
    side = same.second_side()
    assert (side.bootstrap_server, side.kafka, side.topics) == ("one:1", kafka, ("b",))
    assert (side.starting, side.isolation_level) == ("latest", "read_uncommitted")

    other = options(
        **BOTH, kafka=kafka, second_bootstrap_server="two:2", second_starting="earliest"
    ).second_side()
    assert (other.bootstrap_server, dict(other.kafka), other.starting) == ("two:2", {}, "earliest")
    both = options(**BOTH, kafka=kafka, second_kafka={"x": "y"}).second_side()
    assert both.kafka == {"x": "y"}


def test_what_was_found_in_words() -> None:
    first, second = Place("a", 0, 7, 1, b"k"), Place(None, 2, 9, None, None)
    found = Report(first=1_500, second=2, matched=1)
    assert verify.lines(found) == [
        "1,500 records on the first side, 2 on the second, 1 matched",
        "the sides are equal",
    ]
    found.counts |= {"lost": 3, "differing": 1, "reordered": 1, "extra": 1}
    found.findings = [
        Finding("lost", first, None),
        Finding("extra", None, second),
        Finding("differing", first, second, differs=("value", "partition")),
        Finding("reordered", first, second, overtaken_by=(8, 6)),
    ]
    assert verify.lines(found)[1:] == [
        "3 lost, the first 1 of them:",
        "  lost a-0-7 | nowhere",
        "1 extra, the first 1 of them:",
        "  extra nowhere | 2-9",
        "1 differing, the first 1 of them:",
        "  differing a-0-7 | 2-9: value, partition",
        "1 reordered, the first 1 of them:",
        "  reordered a-0-7 | 2-9: overtaken by offsets (8, 6)",
        "the sides are NOT equal",
    ]
