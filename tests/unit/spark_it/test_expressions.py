"""Lists of expressions that the command line has split at commas. (What needs Spark is tested in
tests/spark/test_aggregate.py.)"""

import pytest

from kavka.spark_it import SparkError
from kavka.spark_it.expressions import check_distinct, first_line, whole
from kavka.spark_it.options import build
from kavka.spark_it.pipelines.aggregate import Options


def test_commas_between_arguments_are_put_back() -> None:
    text = "count(*) as n, percentile_approx(size, array(0.5, 0.9), 100) as sizes, max(at) as last"
    common = {"bootstrap_server": "x:1", "topics": "t", "window": "1 day"}
    given = build(
        Options, {**common, "mode": "update", "table": "t", "aggregates": text}
    ).aggregates
    assert whole(given, "aggregates") == [
        "count(*) as n",
        "percentile_approx(size, array(0.5, 0.9), 100) as sizes",
        "max(at) as last",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "count_if(kind = 'a,b' or kind = \"(\") as n",
        "max(`odd ( name`) as n",
        r"count_if(kind = 'it\'s (') as n",
    ],
)
def test_an_expression_in_one_text_stays_as_it_is(text: str) -> None:
    assert whole([text], "aggregates") == [text]


def test_a_comma_in_quotes_cannot_come_from_the_command_line() -> None:
    with pytest.raises(SparkError, match="aggregates: .* ends within '.*file"):
        whole(["count_if(kind = 'a", "b') as n"], "aggregates")


def test_an_open_parenthesis_is_named() -> None:
    with pytest.raises(SparkError, match=r"group_by: 'lower\(kind, key' has a parenthesis"):
        whole(["lower(kind", "key"], "group_by")


def test_two_columns_of_one_name() -> None:
    check_distinct(["a", "b"], "group_by")
    with pytest.raises(SparkError, match="group_by: .* A"):
        check_distinct(["a", "b", "A"], "group_by")


def test_the_first_line_of_sparks_message() -> None:
    parsing = Exception(
        "\n[PARSE_SYNTAX_ERROR] Syntax error. SQLSTATE: 42601 (line 1)\n\n== SQL =="
    )
    assert first_line(parsing) == "[PARSE_SYNTAX_ERROR] Syntax error."
    assert first_line(Exception("Distinct aggregations are not supported;\n~Aggregate")) == (
        "Distinct aggregations are not supported"
    )
