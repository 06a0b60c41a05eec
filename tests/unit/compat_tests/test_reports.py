"""Results as JSON, Markdown and HTML."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kavka.compat_tests import results as forms
from kavka.compat_tests.reports import beside, html, markdown, protocol
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
        ProtocolRow("Fetch", 10, "failed", 10, 2, known={"'b': c of Fetch": "<why>"}),
        ProtocolRow("Fetch", 11, "left out", left_out={"it is <so>": 3}),
        ProtocolRow("Fetch", 12, "passed", 1, left_out={"it is <so>": 2}),
        ProtocolRow("CreateAcls", 2, "no cases"),
        ProtocolRow("CreateAcls", 3, "no cases"),
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
    comparison_lines = markdown.comparison(beside.of(RESULTS, WITH_APPLICATIONS)).splitlines()
    assert "| Streams 4.0 | Counts <words> | . ✓ |" in comparison_lines


def test_the_protocol_in_markdown() -> None:
    lines = markdown.page(RESULTS).splitlines()
    head = "| API | the same | different | not offered | not tried | offered, no cases | cases |"
    assert head in lines
    assert "| Fetch | 4-5,12 | 6-7,10 | 9 | 11 |  | 51 |" in lines
    assert "| CreateAcls |  |  |  |  | 2-3 | 0 |" in lines
    assert "- **v6-7**: 'a case', step 1: <1>" in lines
    assert "| Fetch | 10 | 'b': c of Fetch | <why> |" in lines
    assert lines.index(f"### {protocol.NEW}") < lines.index(f"### {protocol.KNOWN}")
    assert "| Fetch | 11-12 | 5 | it is <so> |" in lines
    assert (RESULTS.different, RESULTS.unexplained) == (3, 2)


def test_a_run_of_the_protocol_alone_has_no_matrix() -> None:
    results = replace(RESULTS, clients=[], scenarios=[], cells=[])
    comparison = beside.of(results, results)
    for text in (markdown.page(results), markdown.comparison(comparison)):
        assert "| client |" not in text and "| Fetch |" in text
    for page in (html.page(results), html.comparison(comparison)):
        assert "<th>client</th>" not in page and "<th>Fetch</th>" in page


def test_two_results_side_by_side() -> None:
    other = replace(
        RESULTS,
        broker="other",
        clients=[RESULTS.clients[0]],
        cells=[Cell("one", "plain", Status.PASSED), Cell("one", "acks", Status.PASSED)],
    )
    comparison = beside.of(RESULTS, other)
    lines = markdown.comparison(comparison).splitlines()
    assert "| One 1.0 | ✓ | ✗ ✓ |" in lines
    assert "| Two | ? . | ? . |" in lines
    assert "## What failed with a <broker>" in lines
    assert "## What failed with other" not in lines
    text = read(html.comparison(comparison)).as_one
    assert "✗ ✓" in text and "What failed with a <broker>" in text
    assert "What failed with other" not in text
    found = comparison.as_json["cells"][1]
    assert (found["client"], found["scenario"]) == ("one", "acks")
    assert [side["status"] for side in found["found"]] == ["failed", "passed"]
    assert comparison.as_json["cells"][2]["found"][1] is None


def test_the_protocol_of_two_results_side_by_side() -> None:
    rows = [replace(row) for row in RESULTS.protocol if row.api == "Fetch"]
    rows[2] = ProtocolRow("Fetch", 6, "failed", 10, 1, ("'another', step 1: 2",))
    comparison = beside.of(RESULTS, replace(RESULTS, broker="other", protocol=rows))
    lines = markdown.comparison(comparison).splitlines()
    fetch = "the same 4-5,12; different 6-7,10; not offered 9; not tried 11"
    assert f"| Fetch | {fetch} | {fetch} |" in lines
    assert "| CreateAcls | offered, no cases 2-3 |  |" in lines
    alone = lines.index("## Answered otherwise than by Apache Kafka: other alone")
    assert "- Fetch v6: 'another', step 1: 2" in lines[alone:]
    together = lines.index("## Answered otherwise than by Apache Kafka: both")
    assert "- Fetch v10: 'b': c of Fetch (<why>)" in lines[together:]
    assert "offered, no cases 2-3" in read(html.comparison(comparison)).as_one
    named = {(row["api"], row["version"]): row["found"] for row in comparison.as_json["protocol"]}
    assert named["CreateAcls", 2][0]["verdict"] == "no cases"
    assert named["CreateAcls", 2][1] is None


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

    @property
    def as_one(self) -> str:
        """All text, with one blank between words."""
        return " ".join("".join(self.text).split())


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_the_page_shows_all_as_text() -> None:
    reader = read(html.page(RESULTS))
    text = reader.as_one
    assert "Compatibility of a <broker>" in text
    assert "Mismatch: 1, expected <2>" in text
    assert "Fetch v6-7'a case', step 1: <1>" in text
    assert "Fetch10'b': c of Fetch<why>" in text
    assert "Fetch11-125it is <so>" in text
    assert "twoneeds Java" in text
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
    assert f"throttled{lacks}" in read(html.page(results)).as_one


def test_a_run_without_the_protocol_says_why() -> None:
    lack = "the broker is one of several"
    results = replace(RESULTS, protocol=(), without_protocol=lack)
    assert f"- The protocol, without clients: {lack}" in markdown.page(results).splitlines()
    assert f"The protocol, without clients{lack}" in read(html.page(results)).as_one


def test_what_is_broken_in_a_client_is_said_below() -> None:
    why = "read_committed shows aborted records"
    results = replace(RESULTS, cells=[Cell("one", "plain", Status.BROKEN, reason=why)])
    lines = markdown.page(results).splitlines()
    assert "| One 1.0 | ⊘ |  |" in lines
    assert lines[lines.index("## What is broken in clients") + 2] == f"- one, plain: {why}"
    assert f'<td class="broken" title="{why}">⊘</td>' in html.page(results)
    assert f"one, plain{why}" in read(html.page(results)).as_one
    beside_another = markdown.comparison(beside.of(results, RESULTS)).splitlines()
    heading = f"## What is broken in clients, with {results.broker}"
    assert beside_another[beside_another.index(heading) + 2] == f"- one, plain: {why}"
