"""The matrix as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from kavka.compat_tests.reports.markdown import (
    APPLICATION_HEAD,
    LEGEND,
    MARKS,
    PROTOCOL_HEAD,
    again,
    differences,
    protocol_rows,
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
.absent, .unavailable, .not-run { color: #888; }
code { background: #f2f2f2; padding: 0 0.2em; }
"""


def page(results: Results) -> str:
    """The matrix of one run; a failed cell leads to its reason."""
    title = escape(f"Compatibility of {results.broker}")
    head = "".join(
        f'<th title="{escape(one.title)}"><span>{escape(one.name)}</span></th>'
        for one in results.matrix_columns
    )
    rows = "".join(
        f"<tr><th>{escape(f'{row.title} {row.version}'.rstrip())}</th>"
        + "".join(_cell(results.cell(row.name, one.name)) for one in results.matrix_columns)
        + "</tr>\n"
        for row in results.matrix_rows
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>Made by <code>kavka compat</code> on {escape(results.began)}, in "
        f"{results.seconds:.0f} s. {escape(LEGEND)}</p>\n"
        f"<table>\n<thead><tr><th>client</th>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>\n"
        f"{_applications(results)}{_reasons(results)}{_protocol(results)}</body>\n</html>\n"
    )


def _applications(results: Results) -> str:
    if not results.applications:
        return ""
    rows = "".join(
        f"<tr><th>{escape(f'{row.title} {row.version}'.rstrip())}</th>"
        f"<td>{escape(column.title)}</td>{_cell(cell)}</tr>\n"
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
    about = f" ({', '.join(cell.apis)})" if cell.apis else ""
    where = escape(f"{cell.step}{about}: {cell.reason}")
    return (
        f'<dt id="{_anchor(cell)}">{escape(cell.client)}, {escape(cell.scenario)}</dt>\n'
        f"<dd>{where}<br>alone: <code>{escape(again(cell))}</code></dd>\n"
    )


def _protocol(results: Results) -> str:
    if not results.protocol:
        return ""
    rows = "".join(
        f"<tr><th>{escape(api)}</th>{''.join(f'<td>{escape(text)}</td>' for text in rest)}</tr>\n"
        for api, *rest in protocol_rows(results.protocol)
    )
    items = "".join(
        f"<dt>{escape(api)} v{versions}</dt><dd>{escape(reason)}</dd>\n"
        for api, found in differences(results.protocol).items()
        for reason, versions in found.items()
    )
    return (
        f"<h2>The protocol, without clients</h2>\n{_table(PROTOCOL_HEAD, rows)}<dl>\n{items}</dl>\n"
    )
