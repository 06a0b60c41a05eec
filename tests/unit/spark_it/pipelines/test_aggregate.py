"""What the pipeline aggregate refuses before anything starts."""

from dataclasses import replace
from typing import Any

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.pipelines.aggregate import Options

GOOD = Options(
    bootstrap_server="127.0.0.1:1",
    topics=("events",),
    window="10 minutes",
    watermark="1 minute",
    aggregates=("count(*) as n",),
    table="totals",
)
SESSIONS: dict[str, Any] = {"window": None, "session_gap": "5 minutes", "group_by": ("key",)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"slide": "10 minutes"},
        {"table_format": "parquet"},
        {"mode": "update", "watermark": None},
        {"mode": "complete", "watermark": None},
        {"watermark": "0 seconds"},
        SESSIONS,
        {**SESSIONS, "mode": "complete"},
        {"table": None, "output_topic": "totals", "checkpoint": "c"},
        {"table": None, "output_topic": "totals", "checkpoint": "c", "mode": "complete"},
        {**SESSIONS, "table": None, "output_topic": "totals", "checkpoint": "c"},
        {
            "table": None,
            "output_topic": "my-events",
            "checkpoint": "c",
            "topics": (),
            "topic_pattern": "events.*",
        },
    ],
)
def test_what_is_possible(given: dict[str, Any]) -> None:
    replace(GOOD, **given)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"window": None}, "either window or session_gap"),
        ({"session_gap": "1 minute"}, "either window or session_gap"),
        ({"table": None}, "either table or output_topic"),
        ({"output_topic": "totals"}, "either table or output_topic"),
        ({"table": None, "output_topic": "totals"}, "checkpoint is required"),
        (
            {"table": None, "output_topic": "events", "checkpoint": "c"},
            "events is one of the topics that are read",
        ),
        (
            {
                "table": None,
                "output_topic": "events-out",
                "checkpoint": "c",
                "topics": (),
                "topic_pattern": "events.*",
            },
            "events-out is one of the topics that are read",
        ),
        ({"watermark": None}, "append needs a watermark"),
        ({**SESSIONS, "mode": "update"}, "update cannot have session windows"),
        ({**SESSIONS, "group_by": ()}, "session windows need group_by"),
        ({**SESSIONS, "slide": "1 minute"}, "slide belongs to window"),
        ({"mode": "update", "table_format": "parquet"}, "update changes rows.*--table-format"),
        ({"mode": "complete", "table_format": "parquet"}, "complete changes rows"),
        ({"slide": "11 minutes"}, "slide .* is longer than window"),
        ({"slide": "0 minutes"}, "slide: must be longer than 0"),
        ({"window": "0 minutes"}, "window: must be longer than 0"),
        ({"watermark": "soon"}, "watermark: 'soon' is not a length of time"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(SparkError, match=error):
        replace(GOOD, **given)
