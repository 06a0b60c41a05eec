"""The outcome as a table, one row a measure, and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.measures import SECTIONS
from bench.rows import Measure
from bench.run import Results

NOTHING: Final = "–"
MISSED: Final = "NO"
DISTURBED_CORES: Final = 0.25
DISTURBED: Final = (
    f"*: meanwhile others used more than {DISTURBED_CORES} cores (median of the runs)"
)


def table(kavka: Results | None, apache: Results | None) -> str:
    """Markdown. A cell is the median of the rounds, with the range where there were several;
    a star says that the machine was not ours alone."""
    rows: list[Sequence[str]] = [_headings(kavka, apache)]
    for section in SECTIONS:
        lines = [
            _row(measure, kavka, apache)
            for measure in section.measures
            if _values(kavka, measure) or _values(apache, measure)
        ]
        if lines:
            rows += [(f"**{section.title}**", *[""] * (len(rows[0]) - 1)), *lines]
    return "\n".join(_aligned(rows))


def _headings(kavka: Results | None, apache: Results | None) -> Sequence[str]:
    names = (kavka.peer if kavka else "Kavka", apache.peer if apache else "Apache Kafka")
    return ("measure", *names, "ratio", "aim", "met")


def summary(results: Results) -> list[str]:
    """How undisturbed a run was, and what failed in it."""
    busiest = sorted(results.loads, key=lambda load: load.others, reverse=True)[:3]
    named = ", ".join(f"{load.stage} {load.others:.2f}" for load in busiest)
    lines = [f"{results.peer}: cores that everything else used, at most: {named or NOTHING}"]
    lines += [f"{results.peer}: {stage} FAILED: {why}" for stage, why in results.failures.items()]
    lines += [f"{results.peer}: {stage} left out: {why}" for stage, why in results.left_out.items()]
    return lines


def missed(kavka: Results, apache: Results | None) -> list[str]:
    """The rows whose aim Kavka did not meet."""
    lines = []
    for section in SECTIONS:
        for measure in section.measures:
            median, ratio = _median(kavka, measure), _ratio(measure, kavka, apache)
            if median is not None and _verdict(measure, median, ratio) == MISSED:
                found = _number(median) + (f" (ratio {ratio:.2f})" if ratio is not None else "")
                lines.append(f"{measure.label}: {found}, aim {_bound(measure)}")
    return lines


def _values(results: Results | None, measure: Measure) -> Sequence[float]:
    return results.values.get(measure.key, ()) if results else ()


def _row(measure: Measure, kavka: Results | None, apache: Results | None) -> tuple[str, ...]:
    median, ratio = _median(kavka, measure), _ratio(measure, kavka, apache)
    divided = NOTHING if ratio is None else f"{ratio:.2f}"
    met = NOTHING if median is None else _verdict(measure, median, ratio)
    cells = (_cell(results, measure) for results in (kavka, apache))
    return (measure.label, *cells, divided, _bound(measure), met)


def _median(results: Results | None, measure: Measure) -> float | None:
    values = _values(results, measure)
    return statistics.median(values) if values else None


def _ratio(measure: Measure, kavka: Results | None, apache: Results | None) -> float | None:
    ours, theirs = _median(kavka, measure), _median(apache, measure)
    return None if ours is None or not theirs else ours / theirs


def _verdict(measure: Measure, median: float, ratio: float | None) -> str:
    bounds = ((median, measure.aim), (ratio, measure.ratio_aim))
    judged = [
        measure.meets(value, bound)
        for value, bound in bounds
        if value is not None and bound is not None
    ]
    if not judged:
        return NOTHING
    if not all(judged):
        return MISSED
    if measure.stretch is not None and measure.meets(median, measure.stretch):
        return "yes, and stretch"
    return "yes"


def _bound(measure: Measure) -> str:
    sign = "≤" if measure.better == "less" else "≥"
    stretch = "" if measure.stretch is None else f" {{{_number(measure.stretch)}}}"
    bounds = []
    if measure.aim is not None:
        bounds.append(f"{sign} {_number(measure.aim)}{stretch}")
    if measure.ratio_aim is not None:
        bounds.append(f"ratio {sign} {_number(measure.ratio_aim)}")
    return ", ".join(bounds) or NOTHING


def _cell(results: Results | None, measure: Measure) -> str:
    values = _values(results, measure)
    if not results or not values:
        return NOTHING
    mark = "*" if _others(results, measure) > DISTURBED_CORES else ""
    median = _number(statistics.median(values))
    if len(values) == 1:
        return median + mark
    return f"{median} ({_number(min(values))}–{_number(max(values))}){mark}"


def _others(results: Results, measure: Measure) -> float:
    """Cores that others used in the stage behind a row, which its key begins with."""
    stage = measure.key.rpartition(".")[0]
    used = [load.others for load in results.loads if load.stage == stage]
    return statistics.median(used) if used else 0.0


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"


def as_json(facts: Mapping[str, object], peers: Sequence[Results]) -> dict[str, object]:
    """Everything that was read, for comparing runs of different days."""
    return {"machine": dict(facts), "peers": {results.peer: results.as_json() for results in peers}}
