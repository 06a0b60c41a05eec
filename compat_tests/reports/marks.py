"""The marks of cells, and other texts that all forms of a report share."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.results import Cell, ClientRow, Results, Status

MARKS: Final = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.ABSENT: "–",
    Status.BROKEN: "⊘",
    Status.UNAVAILABLE: "?",
    Status.NOT_RUN: "·",
}

APPLICATION_HEAD: Final = ("application", "what it tries", "")

LEGEND: Final = (
    "✓ works; ✗ does not, with the reason below; – the client has no such feature; "
    "⊘ the client's own does not work with any broker, as said below; "
    "· the scenario could not be tried on this broker; ? the client could not be tried."
)

PROTOCOL: Final = "The protocol, without clients"


def mark(cell: Cell | None) -> str:
    """Nothing where there is no cell."""
    return "" if cell is None else MARKS[cell.status]


def client(row: ClientRow) -> str:
    """What a row is called."""
    return f"{row.title} {row.version}".rstrip()


def again(cell: Cell) -> str:
    """The command that runs a cell alone."""
    return f"kavka compat --clients {cell.client} --scenarios {cell.scenario}"


def failure(cell: Cell) -> str:
    """Where a cell failed, and why, in one line."""
    about = f" ({', '.join(cell.apis)})" if cell.apis else ""
    return f"{cell.step}{about}: {one_line(cell.reason)}"


def one_line(text: str) -> str:
    return " ".join(text.split())


def broken(results: Results) -> dict[str, str]:
    """What a client itself does wrong with any broker; by client and scenario."""
    cells = (cell for cell in results.cells if cell.status == Status.BROKEN)
    return {f"{cell.client}, {cell.scenario}": cell.reason for cell in cells}


def not_tried(results: Results) -> dict[str, str]:
    """Why clients could not be tried, and scenarios on this broker; by their names."""
    clients = {
        cell.client: cell.reason for cell in results.cells if cell.status == Status.UNAVAILABLE
    }
    scenarios = {
        cell.scenario: cell.reason for cell in results.cells if cell.status == Status.NOT_RUN
    }
    lack = results.without_protocol
    return clients | scenarios | ({PROTOCOL: lack} if lack else {})
