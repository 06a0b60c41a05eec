"""The outcome of a run, and its form in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from kavka.compat_tests.raw.outcomes import Verdict

FORMAT: Final = 1


class Status(StrEnum):
    """What a cell of the matrix says."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """The client has no such feature."""
    BROKEN = "broken"
    """The client's own feature does not work with any broker, so that it is not tried."""
    UNAVAILABLE = "unavailable"
    """The client can't be tried on this machine."""
    NOT_RUN = "not run"
    """The suite can't do here what it needs: restart the broker, for instance."""


@dataclass(frozen=True)
class Cell:
    """One scenario with one client. `step`, `apis`: where it failed, and what that is about."""

    client: str
    scenario: str
    status: Status
    seconds: float = 0.0
    reason: str = ""
    step: str = ""
    apis: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientRow:
    """`version`: empty if it could not be tried."""

    name: str
    title: str
    language: str
    version: str = ""
    is_application: bool = False


@dataclass(frozen=True)
class ScenarioColumn:
    """`only`: the application that it is for."""

    name: str
    title: str
    only: str = ""


@dataclass(frozen=True)
class ProtocolRow:
    """One version of an API, without a client. `verdict`: as `raw.outcomes` has it; `played`,
    `failed`: how many cases; `reasons`: what was answered otherwise, once each; `known`: where
    Kavka does so on purpose, and why; `left_out`: how many cases were not
    played, by reason."""

    api: str
    version: int
    verdict: str
    played: int = 0
    failed: int = 0
    reasons: tuple[str, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """A run. `broker`: what is said of the broker; `began`: in UTC, ISO 8601; `without_protocol`:
    why the part without clients could not be tried."""

    broker: str
    began: str
    seconds: float
    clients: Sequence[ClientRow]
    scenarios: Sequence[ScenarioColumn]
    cells: Sequence[Cell]
    protocol: Sequence[ProtocolRow] = ()
    without_protocol: str = ""

    @property
    def matrix_rows(self) -> list[ClientRow]:
        """The clients that are no applications."""
        return [row for row in self.clients if not row.is_application]

    @property
    def matrix_columns(self) -> list[ScenarioColumn]:
        """The scenarios that are for all of these."""
        return [column for column in self.scenarios if not column.only]

    @property
    def applications(self) -> list[tuple[ClientRow, ScenarioColumn, Cell]]:
        """Applications with the scenarios that are for them."""
        rows = {row.name: row for row in self.clients}
        return [
            (rows[column.only], column, cell)
            for column in self.scenarios
            if column.only and (cell := self.cell(column.only, column.name)) is not None
        ]

    def cell(self, client: str, scenario: str) -> Cell | None:
        """One, if it was among those to run."""
        for cell in self.cells:
            if (cell.client, cell.scenario) == (client, scenario):
                return cell
        return None

    @property
    def tried(self) -> int:
        """How many versions of APIs were."""
        return sum(row.verdict in (Verdict.PASSED, Verdict.FAILED) for row in self.protocol)

    @property
    def different(self) -> int:
        """How many versions of APIs are answered otherwise than by Apache Kafka."""
        return sum(row.verdict == Verdict.FAILED for row in self.protocol)

    @property
    def unexplained(self) -> int:
        """How many of them without a known reason."""
        return sum(row.verdict == Verdict.FAILED and bool(row.reasons) for row in self.protocol)

    def count(self, status: Status) -> int:
        """How many cells have it."""
        return sum(cell.status == status for cell in self.cells)


class NoResults(Exception):
    """A file does not hold the results of a run."""


def save(results: Results, path: Path) -> None:
    """As JSON. OSError."""
    write(asdict(results), path)


def write(values: Mapping[str, Any], path: Path) -> None:
    """Plain values as JSON, with the number of their form. OSError."""
    text = json.dumps({"format": FORMAT, **values}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """What `save` wrote. NoResults, with the reason; OSError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise NoResults(f"{path} has format {found['format']}, this suite reads {FORMAT}")
        return _results(found)
    except (ValueError, KeyError, TypeError) as failure:
        raise NoResults(f"{path} is not the JSON of a run: {failure}") from failure


def _results(found: Mapping[str, Any]) -> Results:
    return Results(
        broker=found["broker"],
        began=found["began"],
        seconds=found["seconds"],
        clients=[ClientRow(**row) for row in found["clients"]],
        scenarios=[ScenarioColumn(**column) for column in found["scenarios"]],
        cells=[_cell(cell) for cell in found["cells"]],
        protocol=[
            ProtocolRow(**{**row, "reasons": tuple(row["reasons"])}) for row in found["protocol"]
        ],
        without_protocol=found.get("without_protocol", ""),
    )


def _cell(found: Mapping[str, Any]) -> Cell:
    return Cell(**{**found, "status": Status(found["status"]), "apis": tuple(found["apis"])})
