"""The table: cells, ratios, and whether aims are met."""

from __future__ import annotations

import pytest
from bench import report
from bench.run import Load, Results

SLOW, FAST = "cluster-produce-16k-1k-1.rate", "cluster-produce-16k-1k-all.rate"
CPU, P99 = "cluster-produce-16k-1k-1.cpu", "cluster-e2e-all.p99"
ERRORS = "cluster-rolling.errors"


def cells(kavka: Results | None, apache: Results | None, label: str) -> list[str]:
    """The cells of a row behind its label."""
    (row,) = [line for line in report.table(kavka, apache).splitlines() if f"| {label} " in line]
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_a_row_has_medians_with_their_ranges_and_their_ratio() -> None:
    kavka = Results("Kavka", {CPU: [3.0, 1.0, 2.0]})
    apache = Results("Apache Kafka 3.9", {CPU: [4.0]})
    found = cells(kavka, apache, "CPU-s of all brokers per GB, 16 KiB batches of 1 KiB, acks=1")
    assert found == ["2 (1–3)", "4", "0.50", "ratio ≤ 0.6", "yes"]


@pytest.mark.parametrize(
    ("ours", "theirs", "met"),
    [(100.0, 100.0, "yes"), (99.0, 100.0, "NO"), (300.0, 100.0, "yes")],
)
def test_where_more_is_better_a_ratio_has_to_be_larger(
    ours: float, theirs: float, met: str
) -> None:
    kavka, apache = Results("Kavka", {SLOW: [ours]}), Results("Apache", {SLOW: [theirs]})
    *_, aim, verdict = cells(kavka, apache, "MB/s, 16 KiB batches of 1 KiB, acks=1")
    assert (aim, verdict) == ("ratio ≥ 1", met)


@pytest.mark.parametrize(
    ("ours", "theirs", "met"),
    [
        (2.9, 30.0, "yes"),
        (3.1, 30.0, "NO"),  # the bound
        (2.9, 2.0, "NO"),  # the ratio
    ],
)
def test_an_aim_and_a_ratio_have_both_to_be_met(ours: float, theirs: float, met: str) -> None:
    kavka, apache = Results("Kavka", {P99: [ours]}), Results("Apache", {P99: [theirs]})
    *_, aim, verdict = cells(kavka, apache, "end to end ms p99, acks=all")
    assert (aim, verdict) == ("≤ 3, ratio ≤ 1", met)


def test_without_the_other_broker_only_the_bound_is_judged() -> None:
    label = "end to end ms p99, acks=all"
    assert cells(Results("Kavka", {P99: [2.0]}), None, label)[-1] == "yes"
    label = "MB/s, 16 KiB batches of 1 KiB, acks=all"
    assert cells(Results("Kavka", {FAST: [2.0]}), None, label) == [
        "2",
        report.NOTHING,
        report.NOTHING,
        "ratio ≥ 1",
        report.NOTHING,
    ]


def test_nothing_is_divided_by_nothing() -> None:
    kavka, apache = Results("Kavka", {ERRORS: [0.0]}), Results("Apache", {ERRORS: [0.0]})
    found = cells(kavka, apache, "records that failed")
    assert found == ["0", "0", report.NOTHING, "≤ 0", "yes"]


def test_the_columns_are_named_by_who_was_measured() -> None:
    heading = report.table(Results("Kavka"), Results("Apache Kafka 3.9")).splitlines()[0]
    assert [cell.strip() for cell in heading.strip("|").split("|")][1:3] == [
        "Kavka",
        "Apache Kafka 3.9",
    ]


def test_rows_without_a_reading_and_sections_without_a_row_are_left_out() -> None:
    lines = report.table(Results("Kavka", {ERRORS: [0.0]}), None).splitlines()
    assert len(lines) == 4, "heading, line, section, row"


def test_a_star_marks_what_others_disturbed() -> None:
    busy = Load("cluster-e2e-all", 1.0, 0.1, 0.1, report.DISTURBED_CORES + 0.01, 0.0)
    kavka = Results("Kavka", {P99: [2.0]}, [busy])
    assert cells(kavka, None, "end to end ms p99, acks=all")[0] == "2*"


def test_missed_aims_are_told_with_what_was_found() -> None:
    kavka = Results("Kavka", {P99: [2.5], CPU: [7.0], SLOW: [50.0]})
    apache = Results("Apache", {P99: [10.0], CPU: [10.0], SLOW: [100.0]})
    assert report.missed(kavka, apache) == [
        "MB/s, 16 KiB batches of 1 KiB, acks=1: 50 (ratio 0.50), aim ratio ≥ 1",
        "CPU-s of all brokers per GB, 16 KiB batches of 1 KiB, acks=1: 7 (ratio 0.70), "
        "aim ratio ≤ 0.6",
    ]
