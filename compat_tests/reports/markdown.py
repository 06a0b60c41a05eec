"""The matrix, and two of them side by side, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kavka.compat_tests.raw.outcomes import Verdict
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.results import (
    Cell,
    ClientRow,
    ProtocolRow,
    Results,
    ScenarioColumn,
    Status,
)

MARKS: Final = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.ABSENT: "–",
    Status.UNAVAILABLE: "?",
    Status.NOT_RUN: "·",
}

APPLICATION_HEAD: Final = ("application", "what it tries", "")

PROTOCOL_HEAD: Final = ("API", "the same", "different", "not offered", "not tried", "cases")

LEGEND: Final = (
    "✓ works; ✗ does not, with the reason below; – the client has no such feature; "
    "· the scenario could not be tried on this broker; ? the client could not be tried."
)


def page(results: Results) -> str:
    """The matrix of one run, and why cells failed."""
    lines = [
        f"# Compatibility of {results.broker}",
        "",
        f"Made by `kavka compat` on {results.began}, in {results.seconds:.0f} s. {LEGEND}",
        "",
        *_matrix(results),
        "",
        *_scenarios(results),
        *_applications(results),
        *_reasons(results),
        *_protocol(results),
    ]
    return "\n".join(lines).rstrip() + "\n"


def comparison(first: Results, second: Results) -> str:
    """Two runs side by side: a cell shows both marks where they differ; the reasons follow."""
    lines = [
        f"# {first.broker} beside {second.broker}",
        "",
        f"A cell has the mark of {first.broker}, and behind it that of {second.broker} where it is "
        f"another. {LEGEND}",
        "",
    ]
    names = _union(first.matrix_columns, second.matrix_columns)
    rows = {row.name: row for row in (*second.clients, *first.clients)}
    ordered = _union(first.matrix_rows, second.matrix_rows)
    lines += _table(
        ["client", *names],
        (
            [_client(rows[client]), *(_both(first, second, client, name) for name in names)]
            for client in ordered
        ),
    )
    lines += _applications_of_both(first, second, rows)
    for results in (first, second):
        lines += ["", *_reasons(results, f" with {results.broker}")]
    return "\n".join(lines).rstrip() + "\n"


def _applications_of_both(
    first: Results, second: Results, rows: Mapping[str, ClientRow]
) -> Iterator[str]:
    columns = {column.name: column for one in (second, first) for _, column, _ in one.applications}
    if columns:
        yield ""
        yield from _table(
            APPLICATION_HEAD,
            (
                [_client(rows[one.only]), one.title, _both(first, second, one.only, one.name)]
                for one in columns.values()
            ),
        )


def _union(
    first: Sequence[ClientRow | ScenarioColumn], second: Sequence[ClientRow | ScenarioColumn]
) -> list[str]:
    """The names of both, in their order."""
    return list(dict.fromkeys(one.name for one in (*first, *second)))


def _matrix(results: Results) -> Iterator[str]:
    names = [one.name for one in results.matrix_columns]
    return _table(
        ["client", *names],
        (
            [_client(row), *(_mark(results.cell(row.name, name)) for name in names)]
            for row in results.matrix_rows
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _client(row: ClientRow) -> str:
    return f"{row.title} {row.version}".rstrip()


def _mark(cell: Cell | None) -> str:
    return "" if cell is None else MARKS[cell.status]


def _both(first: Results, second: Results, client: str, scenario: str) -> str:
    marks = [_mark(results.cell(client, scenario)) or "." for results in (first, second)]
    return marks[0] if marks[0] == marks[1] else " ".join(marks)


def _scenarios(results: Results) -> Iterator[str]:
    yield "| scenario | what it tries |"
    yield "|---|---|"
    for one in results.matrix_columns:
        yield f"| {one.name} | {one.title} |"


def _applications(results: Results) -> Iterator[str]:
    if results.applications:
        yield ""
        yield "## Applications"
        yield ""
        yield from _table(
            APPLICATION_HEAD,
            (
                [_client(row), column.title, MARKS[cell.status]]
                for row, column, cell in results.applications
            ),
        )


def _reasons(results: Results, where: str = "") -> Iterator[str]:
    failed = [cell for cell in results.cells if cell.status == Status.FAILED]
    if failed:
        yield ""
        yield f"## What failed{where}"
        yield ""
    for cell in failed:
        about = f" ({', '.join(cell.apis)})" if cell.apis else ""
        yield (
            f"- {cell.client}, {cell.scenario}: {cell.step}{about}: {_one_line(cell.reason)}. "
            f"Alone: `{again(cell)}`"
        )
    reasons = not_tried(results)
    if reasons:
        yield ""
        yield f"## What could not be tried{where}"
        yield ""
    for what, reason in reasons.items():
        yield f"- {what}: {_one_line(reason)}"


def not_tried(results: Results) -> dict[str, str]:
    """Why clients could not be tried, and scenarios on this broker; by their names."""
    clients = {one.client: one.reason for one in results.cells if one.status == Status.UNAVAILABLE}
    scenarios = {one.scenario: one.reason for one in results.cells if one.status == Status.NOT_RUN}
    return clients | scenarios


def _protocol(results: Results) -> Iterator[str]:
    """The part without clients: a row an API."""
    if not results.protocol:
        return
    yield ""
    yield "## The protocol, without clients"
    yield ""
    yield (
        "Requests in every version, whose answers are compared field by field with recorded ones "
        "of Apache Kafka 4.3.1, and of 3.9.2 for versions that 4.3.1 does not serve."
    )
    yield ""
    yield from _table(PROTOCOL_HEAD, protocol_rows(results.protocol))
    for api, found in differences(results.protocol).items():
        yield ""
        yield f"{api} (alone: `kavka compat --apis {api}`):"
        yield ""
        for reason, versions in found.items():
            yield f"- v{versions}: {_one_line(reason)}"


def protocol_rows(protocol: Sequence[ProtocolRow]) -> Iterator[list[str]]:
    """A row an API, under PROTOCOL_HEAD."""
    by_api: dict[str, list[ProtocolRow]] = {}
    for row in protocol:
        by_api.setdefault(row.api, []).append(row)
    for api, rows in by_api.items():
        versions = [ranges([one.version for one in rows if one.verdict == v]) for v in Verdict]
        yield [api, *versions, str(sum(one.played for one in rows))]


def differences(protocol: Sequence[ProtocolRow]) -> dict[str, dict[str, str]]:
    """By API: each difference, and the versions that show it."""
    found: dict[str, dict[str, list[int]]] = {}
    for row in protocol:
        if row.verdict == Verdict.FAILED:
            for reason in row.reasons:
                found.setdefault(row.api, {}).setdefault(reason, []).append(row.version)
    return {
        api: {reason: ranges(versions) for reason, versions in of_api.items()}
        for api, of_api in found.items()
    }


def again(cell: Cell) -> str:
    """The command that runs a cell alone."""
    return f"kavka compat --clients {cell.client} --scenarios {cell.scenario}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
