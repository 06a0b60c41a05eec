"""What the pipeline compact-history refuses before anything starts."""

from dataclasses import replace
from typing import Any

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.pipelines.compact_history import Options

GOOD = Options(bootstrap_server="127.0.0.1:1", topics=("users",), table="users")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"trigger": "continuous"},
        {"table_format": "parquet", "form": "scd2"},
        {"as_of": "2026-01-31T12:00:00Z"},
        {"as_of": '{"users": {"0": 23}}', "form": "scd2"},
    ],
)
def test_what_is_possible(given: dict[str, Any]) -> None:
    replace(GOOD, **given)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"table_format": "parquet", "trigger": "continuous"}, "Parquet is made anew"),
        ({"as_of": "2026-01-31", "trigger": "continuous"}, "as_of is made anew"),
        ({"as_of": "yesterday"}, "as_of: 'yesterday' is neither"),
        ({"as_of": '{"users": '}, "as_of: .* is not JSON"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(SparkError, match=error):
        replace(GOOD, **given)
