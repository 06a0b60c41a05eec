"""The matrix, and two of them side by side, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kavka.compat_tests.reports import protocol
from kavka.compat_tests.reports.beside import Comparison
from kavka.compat_tests.reports.marks import (
    APPLICATION_HEAD,
    LEGEND,
    MARKS,
    PROTOCOL,
    again,
    broken,
    client,
    failure,
    mark,
    not_tried,
    one_line,
)
from kavka.compat_tests.results import Results, Status


def page(results: Results) -> str:
    """The matrix of one run, and why cells failed."""
    lines = [
        f"# Compatibility of {results.broker}",
        "",
        f"Made by `kavka compat` on {results.began}, in {results.seconds:.0f} s. {LEGEND}",
        "",
        *((*_matrix(results), "", *_scenarios(results)) if results.matrix_rows else ()),
        *_applications(results),
        *_reasons(results),
        *_protocol(results),
    ]
    return "\n".join(lines).rstrip() + "\n"


def comparison(both: Comparison) -> str:
    """Two runs side by side."""
    lines = [f"# {both.title}", "", both.about]
    for part in both.parts:
        lines += ["", f"## {part.heading}"] if part.heading else []
        lines += ["", *_table(part.head, part.rows)] if part.head else []
        lines += ["", *(f"- {text}" for text in part.items)] if part.items else []
    return "\n".join(lines).rstrip() + "\n"


def _matrix(results: Results) -> Iterator[str]:
    names = [column.name for column in results.matrix_columns]
    return _table(
        ["client", *names],
        (
            [client(row), *(mark(results.cell(row.name, name)) for name in names)]
            for row in results.matrix_rows
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(text.replace("|", "\\|") for text in row) + " |"


def _scenarios(results: Results) -> Iterator[str]:
    yield "| scenario | what it tries |"
    yield "|---|---|"
    for column in results.matrix_columns:
        yield f"| {column.name} | {column.title} |"


def _applications(results: Results) -> Iterator[str]:
    if results.applications:
        yield ""
        yield "## Applications"
        yield ""
        yield from _table(
            APPLICATION_HEAD,
            (
                [client(row), column.title, MARKS[cell.status]]
                for row, column, cell in results.applications
            ),
        )


def _reasons(results: Results) -> Iterator[str]:
    failed = [cell for cell in results.cells if cell.status == Status.FAILED]
    if failed:
        yield from ("", "## What failed", "")
    for cell in failed:
        yield f"- {cell.client}, {cell.scenario}: {failure(cell)}. Alone: `{again(cell)}`"
    wrong = broken(results)
    if wrong:
        yield from ("", "## What is broken in clients", "")
    for subject, reason in wrong.items():
        yield f"- {subject}: {one_line(reason)}"
    reasons = not_tried(results)
    if reasons:
        yield from ("", "## What could not be tried", "")
    for subject, reason in reasons.items():
        yield f"- {subject}: {one_line(reason)}"


def _protocol(results: Results) -> Iterator[str]:
    """The part without clients: a row an API; first the differences without a reason."""
    if not results.protocol:
        return
    yield from ("", f"## {PROTOCOL}", "", protocol.ABOUT, "")
    yield from _table(protocol.HEAD, protocol.by_api(results.protocol))
    new = protocol.new(results.protocol)
    if new:
        yield from ("", f"### {protocol.NEW}")
    for api, found in new.items():
        yield from ("", f"{api} (alone: `kavka compat --apis {api}`):", "")
        for reason, versions in found.items():
            yield f"- **v{versions}**: {one_line(reason)}"
    for heading, head, rows in (
        (protocol.KNOWN, protocol.KNOWN_HEAD, list(protocol.known(results.protocol))),
        (protocol.LEFT_OUT, protocol.LEFT_OUT_HEAD, list(protocol.left_out(results.protocol))),
    ):
        if rows:
            yield from ("", f"### {heading}", "")
            yield from _table(head, rows)
