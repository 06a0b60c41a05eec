"""Two runs side by side, in a form that Markdown and HTML are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kavka.compat_tests.reports import protocol
from kavka.compat_tests.reports.marks import (
    APPLICATION_HEAD,
    LEGEND,
    PROTOCOL,
    again,
    broken,
    client,
    failure,
    mark,
    not_tried,
    one_line,
)
from kavka.compat_tests.results import ClientRow, ProtocolRow, Results, ScenarioColumn, Status


class Part(NamedTuple):
    """A heading, if there is one; a table, or a list."""

    heading: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    items: Sequence[str] = ()


@dataclass(frozen=True)
class Comparison:
    """What the pages say, and the same as plain values."""

    title: str
    about: str
    parts: Sequence[Part]
    as_json: Mapping[str, Any]


def of(first: Results, second: Results) -> Comparison:
    """A cell shows both marks where they differ; the reasons follow."""
    parts = [
        *_matrix(first, second),
        *_applications(first, second),
        *(part for results in (first, second) for part in _reasons(results)),
        *_protocol(first, second),
    ]
    about = (
        f"A cell has the mark of {first.broker}, and behind it that of {second.broker} where it is "
        f"another. {LEGEND}"
    )
    title = f"{first.broker} beside {second.broker}"
    return Comparison(title, about, parts, _plain(first, second))


def _matrix(first: Results, second: Results) -> Iterator[Part]:
    ordered = _union(first.matrix_rows, second.matrix_rows)
    if not ordered:
        return
    names = _union(first.matrix_columns, second.matrix_columns)
    rows = _client_rows(first, second)
    yield Part(
        head=["client", *names],
        rows=[
            [
                client(rows[client_name]),
                *(_both(first, second, client_name, name) for name in names),
            ]
            for client_name in ordered
        ],
    )


def _applications(first: Results, second: Results) -> Iterator[Part]:
    columns = {
        column.name: column for results in (second, first) for _, column, _ in results.applications
    }
    rows = _client_rows(first, second)
    if columns:
        yield Part(
            "Applications",
            APPLICATION_HEAD,
            [
                [
                    client(rows[column.only]),
                    column.title,
                    _both(first, second, column.only, column.name),
                ]
                for column in columns.values()
            ],
        )


def _reasons(results: Results) -> Iterator[Part]:
    failed = [
        f"{cell.client}, {cell.scenario}: {failure(cell)}. Alone: `{again(cell)}`"
        for cell in results.cells
        if cell.status == Status.FAILED
    ]
    wrong = [f"{subject}: {one_line(why)}" for subject, why in broken(results).items()]
    left_out = [f"{subject}: {one_line(why)}" for subject, why in not_tried(results).items()]
    if failed:
        yield Part(f"What failed with {results.broker}", items=failed)
    if wrong:
        yield Part(f"What is broken in clients, with {results.broker}", items=wrong)
    if left_out:
        yield Part(f"What could not be tried with {results.broker}", items=left_out)


def _protocol(first: Results, second: Results) -> Iterator[Part]:
    """A row an API, and the differences from Apache Kafka that only one of them has, or both."""
    apis = list(dict.fromkeys(row.api for row in (*first.protocol, *second.protocol)))
    if not apis:
        return
    yield Part(
        PROTOCOL,
        ["API", first.broker, second.broker],
        [
            [api, *(protocol.said_of(api, results.protocol) for results in (first, second))]
            for api in apis
        ],
    )
    ours, theirs = (_differences(results) for results in (first, second))
    for who, found in (
        (f"{first.broker} alone", [difference for difference in ours if difference not in theirs]),
        (f"{second.broker} alone", [difference for difference in theirs if difference not in ours]),
        ("both", [difference for difference in ours if difference in theirs]),
    ):
        if found:
            yield Part(f"Answered otherwise than by Apache Kafka: {who}", items=found)


def _differences(results: Results) -> list[str]:
    """Those without a known reason first, with what was answered."""
    new = [
        f"{api} v{versions}: {one_line(text)}"
        for api, found in protocol.new(results.protocol).items()
        for text, versions in found.items()
    ]
    known = [
        f"{api} v{versions}: {where} ({why})"
        for api, versions, where, why in protocol.known(results.protocol)
    ]
    return [*new, *known]


def _plain(first: Results, second: Results) -> dict[str, Any]:
    """The names of both, and for each cell and version of an API what each of them has."""
    both = (first, second)
    pairs = dict.fromkeys(
        (cell.client, cell.scenario) for results in both for cell in results.cells
    )
    versions = dict.fromkeys((row.api, row.version) for results in both for row in results.protocol)
    rows = [{(row.api, row.version): row for row in results.protocol} for results in both]
    return {
        "brokers": [results.broker for results in both],
        "cells": [
            {
                "client": name,
                "scenario": scenario,
                "found": [_status(results, name, scenario) for results in both],
            }
            for name, scenario in pairs
        ],
        "protocol": [
            {
                "api": api,
                "version": version,
                "found": [_verdict(table.get((api, version))) for table in rows],
            }
            for api, version in versions
        ],
    }


def _status(results: Results, name: str, scenario: str) -> dict[str, Any] | None:
    cell = results.cell(name, scenario)
    return None if cell is None else {"status": cell.status, "reason": cell.reason}


def _verdict(row: ProtocolRow | None) -> dict[str, Any] | None:
    return (
        None
        if row is None
        else {"verdict": row.verdict, "reasons": row.reasons, "known": row.known}
    )


def _client_rows(first: Results, second: Results) -> dict[str, ClientRow]:
    return {row.name: row for row in (*second.clients, *first.clients)}


def _union(
    first: Iterable[ClientRow | ScenarioColumn], second: Iterable[ClientRow | ScenarioColumn]
) -> list[str]:
    """The names of both, in their order."""
    return list(dict.fromkeys(item.name for item in (*first, *second)))


def _both(first: Results, second: Results, name: str, scenario: str) -> str:
    marks = [mark(results.cell(name, scenario)) or "." for results in (first, second)]
    return marks[0] if marks[0] == marks[1] else " ".join(marks)
