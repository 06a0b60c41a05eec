"""Results as JSON, Markdown and HTML."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kavka.compat_tests import results as forms
from kavka.compat_tests.reports import html, markdown
from kavka.compat_tests.results import (
    Cell,
    ClientRow,
    NoResults,
    ProtocolRow,
    Results,
    ScenarioColumn,
    Status,
)

RESULTS = Results(
    broker="a <broker>",
    began="2026-01-31T12:00:00+00:00",
    seconds=12.5,
    clients=[ClientRow("one", "One", "Go", "1.0"), ClientRow("two", "Two", "Java")],
    scenarios=[ScenarioColumn("plain", "Plain records"), ScenarioColumn("acks", "Acks")],
    cells=[
        Cell("one", "plain", Status.PASSED, 1.5),
        Cell("one", "acks", Status.FAILED, 2.0, "Mismatch: 1,\nexpected <2>", "read", ("Fetch",)),
        Cell("two", "plain", Status.UNAVAILABLE, reason="needs Java"),
        Cell("two", "acks", Status.UNAVAILABLE, reason="needs Java"),
    ],
    protocol=[
        ProtocolRow("Fetch", 4, "passed", 10),
        ProtocolRow("Fetch", 5, "passed", 10),
        ProtocolRow("Fetch", 6, "failed", 10, 1, ("'a case', step 1: <1>",)),
        ProtocolRow("Fetch", 7, "failed", 10, 1, ("'a case', step 1: <1>",)),
        ProtocolRow("Fetch", 9, "not offered"),
    ],
)


WITH_APPLICATIONS = replace(
    RESULTS,
    clients=[*RESULTS.clients, ClientRow("streams", "Streams", "Java", "4.0", True)],
    scenarios=[*RESULTS.scenarios, ScenarioColumn("count", "Counts <words>", "streams")],
    cells=[*RESULTS.cells, Cell("streams", "count", Status.PASSED, 3.0)],
)


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for results in (RESULTS, WITH_APPLICATIONS):
        forms.save(results, path)
        assert forms.load(path) == results


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "broker": "a"}', "\N{BULLET}"]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(NoResults, match=r"results\.json"):
        forms.load(path)


def test_the_matrix_in_markdown() -> None:
    lines = markdown.page(RESULTS).splitlines()
    assert "| client | plain | acks |" in lines
    assert "| One 1.0 | ✓ | ✗ |" in lines
    assert "| Two | ? | ? |" in lines
    assert (
        "- one, acks: read (Fetch): Mismatch: 1, expected <2>. "
        "Alone: `kavka compat --clients one --scenarios acks`"
    ) in lines
    assert lines.count("- two: needs Java") == 1


def test_applications_have_a_table_of_their_own() -> None:
    lines = markdown.page(WITH_APPLICATIONS).splitlines()
    assert "| Streams 4.0 | Counts <words> | ✓ |" in lines
    assert "| client | plain | acks |" in lines
    assert not [line for line in lines if line.startswith("| count |")]
    assert "<td>Counts &lt;words&gt;</td>" in html.page(WITH_APPLICATIONS)
    assert "Applications" not in html.page(RESULTS)
    beside = markdown.comparison(RESULTS, WITH_APPLICATIONS).splitlines()
    assert "| Streams 4.0 | Counts <words> | . ✓ |" in beside


def test_the_protocol_in_markdown() -> None:
    lines = markdown.page(RESULTS).splitlines()
    assert "| API | the same | different | not offered | not tried | cases |" in lines
    assert "| Fetch | 4-5 | 6-7 | 9 |  | 40 |" in lines
    assert "- v6-7: 'a case', step 1: <1>" in lines
    assert RESULTS.different == 2


def test_two_results_side_by_side() -> None:
    other = replace(
        RESULTS,
        broker="other",
        clients=[RESULTS.clients[0]],
        cells=[Cell("one", "plain", Status.PASSED), Cell("one", "acks", Status.PASSED)],
    )
    lines = markdown.comparison(RESULTS, other).splitlines()
    assert "| One 1.0 | ✓ | ✗ ✓ |" in lines
    assert "| Two | ? . | ? . |" in lines
    assert "## What failed with a <broker>" in lines
    assert "## What failed with other" not in lines


class Reader(HTMLParser):
    """Collects the text, and the places that links lead to and that there are."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.links: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "a":
            self.links.add(str(known["href"]))
        if known.get("id"):
            self.places.add(f"#{known['id']}")
        assert tag not in {"script", "link", "img"}, "the page needs nothing else"

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_shows_all_as_text() -> None:
    reader = Reader()
    reader.feed(html.page(RESULTS))
    text = " ".join("".join(reader.text).split())
    assert "Compatibility of a <broker>" in text
    assert "Mismatch: 1, expected <2>" in text
    assert "Fetch v6-7'a case', step 1: <1>" in text
    assert reader.links == reader.places == {"#one--acks"}


def test_a_scenario_that_was_not_tried_says_why() -> None:
    lacks = "the broker has no quotas (AlterClientQuotas)"
    results = replace(
        RESULTS,
        scenarios=[*RESULTS.scenarios, ScenarioColumn("throttled", "Held back")],
        cells=[*RESULTS.cells, Cell("one", "throttled", Status.NOT_RUN, reason=lacks)],
    )
    text = markdown.page(results)
    assert text.endswith("\n") and f"\n- two: needs Java\n- throttled: {lacks}\n" in text
