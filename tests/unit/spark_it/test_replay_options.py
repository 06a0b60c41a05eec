"""The options of replay, before Spark is there."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.pipelines import replay


def options(**given: Any) -> replay.Options:
    return replay.Options(bootstrap_server="one:1", table="events", topic="again", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speed": 1.0, "rate": 5.0}, "speed and rate exclude each other"),
        ({"speed": -1.0}, "speed is -1.0: give 0 or more"),
        ({"writers": -1}, "writers is -1"),
        ({"transaction_records": 0}, "transaction_records is 0: give more than 0"),
        ({"transaction_seconds": 31.0}, "at most 30.0"),
    ],
)
def test_options_that_make_no_sense(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SparkError, match=said):
        options(**given)


def test_the_group_is_named_after_the_topic_or_as_it_is_said() -> None:
    assert options().group == "replay-again"
    assert options(name="mine").group == "mine"
