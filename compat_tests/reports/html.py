"""The matrix as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from kavka.compat_tests.reports import protocol
from kavka.compat_tests.reports.beside import Comparison, Part
from kavka.compat_tests.reports.marks import (
    APPLICATION_HEAD,
    LEGEND,
    MARKS,
    PROTOCOL,
    again,
    broken,
    client,
    failure,
    not_tried,
    one_line,
)
from kavka.compat_tests.results import Cell, Results, Status

STYLE: Final = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; }
th, td { border: 1px solid #ccc; padding: 0.25em 0.5em; text-align: center; }
th:first-child { text-align: left; white-space: nowrap; }
thead th { vertical-align: bottom; }
thead span { writing-mode: vertical-rl; transform: rotate(180deg); }
.passed { color: #176b2c; }
.failed { background: #fbdcdc; color: #8c1616; font-weight: bold; }
.absent, .broken, .unavailable, .not-run { color: #888; }
.other { background: #fdf3d0; }
td.text { text-align: left; }
code { background: #f2f2f2; padding: 0 0.2em; }
"""


def page(results: Results) -> str:
    """The matrix of one run; a failed cell leads to its reason."""
    title = f"Compatibility of {results.broker}"
    head = "".join(
        f'<th title="{escape(column.title)}"><span>{escape(column.name)}</span></th>'
        for column in results.matrix_columns
    )
    rows = "".join(
        f"<tr><th>{escape(client(row))}</th>"
        + "".join(_cell(results.cell(row.name, column.name)) for column in results.matrix_columns)
        + "</tr>\n"
        for row in results.matrix_rows
    )
    columns = f"<thead><tr><th>client</th>{head}</tr></thead>"
    matrix = f"<table>\n{columns}\n<tbody>\n{rows}</tbody></table>\n" if rows else ""
    return _document(
        title,
        f"<p>Made by <code>kavka compat</code> on {escape(results.began)}, in "
        f"{results.seconds:.0f} s. {escape(LEGEND)}</p>\n"
        f"{matrix}"
        f"{_applications(results)}{_reasons(results)}"
        f"{_why('What is broken in clients', broken(results))}"
        f"{_why('What could not be tried', not_tried(results))}{_protocol(results)}",
    )


def comparison(both: Comparison) -> str:
    """Two runs side by side."""
    parts = "".join(map(_part, both.parts))
    return _document(both.title, f"<p>{escape(both.about)}</p>\n{parts}")


def _document(title: str, body: str) -> str:
    title = escape(title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )


def _part(part: Part) -> str:
    heading = f"<h2>{escape(part.heading)}</h2>\n" if part.heading else ""
    table = _table(part.head, _rows(part.rows)) if part.head else ""
    items = "".join(f"<li>{escape(text)}</li>\n" for text in part.items)
    return heading + table + (f"<ul>\n{items}</ul>\n" if items else "")


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "".join(
        f"<tr><th>{escape(first)}</th>{''.join(map(_text, rest))}</tr>\n" for first, *rest in rows
    )


def _text(text: str) -> str:
    """A cell. That of a comparison has two marks where brokers differ."""
    marks = text.split()
    if len(marks) <= 2 and all(len(mark) == 1 and not mark.isdecimal() for mark in marks):
        return f'<td class="other">{text}</td>' if len(marks) == 2 else f"<td>{text}</td>"
    return f'<td class="text">{escape(text)}</td>'


def _applications(results: Results) -> str:
    if not results.applications:
        return ""
    rows = "".join(
        f"<tr><th>{escape(client(row))}</th><td>{escape(column.title)}</td>{_cell(cell)}</tr>\n"
        for row, column, cell in results.applications
    )
    return f"<h2>Applications</h2>\n{_table(APPLICATION_HEAD, rows)}"


def _table(head: Sequence[str], rows: str) -> str:
    names = "".join(f"<th>{escape(text)}</th>" for text in head)
    return f"<table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{rows}</tbody></table>\n"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    mark = MARKS[cell.status]
    if cell.status == Status.FAILED:
        mark = f'<a href="#{_anchor(cell)}">{mark}</a>'
    kind = cell.status.replace(" ", "-")
    return f'<td class="{kind}" title="{escape(cell.reason)}">{mark}</td>'


def _anchor(cell: Cell) -> str:
    return escape(f"{cell.client}--{cell.scenario}")


def _reasons(results: Results) -> str:
    failed = [cell for cell in results.cells if cell.status == Status.FAILED]
    if not failed:
        return ""
    items = "".join(_reason(cell) for cell in failed)
    return f"<h2>What failed</h2>\n<dl>\n{items}</dl>\n"


def _reason(cell: Cell) -> str:
    return (
        f'<dt id="{_anchor(cell)}">{escape(cell.client)}, {escape(cell.scenario)}</dt>\n'
        f"<dd>{escape(failure(cell))}<br>alone: <code>{escape(again(cell))}</code></dd>\n"
    )


def _why(heading: str, reasons: Mapping[str, str]) -> str:
    items = "".join(
        f"<dt>{escape(subject)}</dt><dd>{escape(one_line(reason))}</dd>\n"
        for subject, reason in reasons.items()
    )
    return f"<h2>{heading}</h2>\n<dl>\n{items}</dl>\n" if items else ""


def _protocol(results: Results) -> str:
    """First the differences without a reason."""
    if not results.protocol:
        return ""
    new = "".join(
        f'<dt class="failed">{escape(api)} v{versions}</dt><dd>{escape(reason)}</dd>\n'
        for api, found in protocol.new(results.protocol).items()
        for reason, versions in found.items()
    )
    parts = [
        f"<h2>{PROTOCOL}</h2>\n<p>{escape(protocol.ABOUT)}</p>\n",
        _table(protocol.HEAD, _rows(protocol.by_api(results.protocol))),
        f"<h3>{protocol.NEW}</h3>\n<dl>\n{new}</dl>\n" if new else "",
    ]
    for heading, head, rows in (
        (protocol.KNOWN, protocol.KNOWN_HEAD, _rows(protocol.known(results.protocol))),
        (protocol.LEFT_OUT, protocol.LEFT_OUT_HEAD, _rows(protocol.left_out(results.protocol))),
    ):
        parts.append(f"<h3>{heading}</h3>\n{_table(head, rows)}" if rows else "")
    return "".join(parts)
