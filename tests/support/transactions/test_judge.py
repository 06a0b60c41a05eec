"""The judge of transactions complains of what it should, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.transactions import judge
from support.transactions.events import Report, read
from support.transactions.programs.reporting import transformed

COUNTS = {0: 3, 1: 2}


def output(partition: int, number: int, by: str = "a", attempt: int = 1) -> bytes:
    return transformed(judge.input_value(partition, number), by, attempt)


def log(*values: bytes) -> list[tuple[int, bytes]]:
    return list(enumerate(values))


GOOD = {
    0: log(output(0, 0), output(0, 1), output(0, 2, "b", 1)),
    1: log(output(1, 0), output(1, 1, "b", 1)),
}
SENT = [
    Report("a", "sent", 1, (("input/0", 0, 1), ("input/1", 0, 0))),
    Report("b", "sent", 1, (("input/0", 2, 2), ("input/1", 1, 1))),
]


def test_a_good_output() -> None:
    assert judge.disorder(GOOD, COUNTS) == []
    reports = [
        *SENT,
        Report("a", "committed", 1),
        Report("b", "ready"),
        Report("b", "committed", 1),
    ]
    assert judge.broken_promises(GOOD, reports) == []
    assert judge.broken_promises(GOOD, SENT) == []
    assert judge.not_for_all(GOOD, GOOD) == []
    assert judge.differing(GOOD, GOOD, "twice") == []


def test_an_order_with_gaps_of_offsets_is_good() -> None:
    """Markers and aborted records take offsets too."""
    assert judge.disorder({0: [(4, output(0, 0)), (9, output(0, 1))]}, {0: 2}) == []


@pytest.mark.parametrize(
    ("values", "complaints"),
    [
        ((output(0, 0), output(0, 2)), ["output/0: 1 is lost"]),
        ((), ["output/0: 0 is lost", "output/0: 1 is lost", "output/0: 2 is lost"]),
        (
            (output(0, 0), output(0, 1), output(0, 1, "b", 7), output(0, 2)),
            ["output/0@2: 1 is there twice, now by b/7"],
        ),
        (
            (output(0, 1), output(0, 0), output(0, 2)),
            ["output/0@1: 0 by a/1 comes after 1"],
        ),
        (
            (output(0, 0), b"0/1/a", output(0, 2)),
            ["output/0@1: b'0/1/a' is not from the input", "output/0: 1 is lost"],
        ),
        (
            (output(0, 0), output(0, 1).lower(), output(0, 2)),
            [f"output/0@1: {output(0, 1).lower()[:60]!r} is not what 1 becomes"],
        ),
        (
            (output(0, 0), output(0, 1), output(0, 2), output(0, 3)),
            [f"output/0@3: {output(0, 3)[:60]!r} does not belong here"],
        ),
        (
            (output(0, 0), output(0, 1), output(1, 1), output(0, 2)),
            [f"output/0@2: {output(1, 1)[:60]!r} does not belong here"],
        ),
    ],
)
def test_a_bad_output(values: Sequence[bytes], complaints: list[str]) -> None:
    assert judge.disorder({0: log(*values)}, {0: 3}) == complaints


@pytest.mark.parametrize("end", ["aborted", "fenced"])
def test_what_was_not_committed_is_there(end: str) -> None:
    reports = [*SENT, Report("b", end, 1)]
    assert judge.broken_promises(GOOD, reports) == [f"b/1 is {end}, and 2 of its records are there"]


def test_a_producer_may_be_fenced_when_it_retries_its_commit() -> None:
    reports = [*SENT, Report("b", "committing", 1), Report("b", "fenced", 1)]
    assert judge.broken_promises(GOOD, reports) == []


def test_what_was_committed_is_not_there() -> None:
    reports = [*SENT, Report("c", "sent", 2, (("input/0", 3, 3),)), Report("c", "committed", 2)]
    complaint = "c/2 is committed, and none of its records is there"
    assert judge.broken_promises(GOOD, reports) == [complaint]


@pytest.mark.parametrize("end", [[], [Report("a", "committed", 1)]])
def test_a_part_is_there(end: list[Report]) -> None:
    records = {**GOOD, 1: GOOD[1][1:]}
    complaint = "a/1 is there in part: 1 of 3 records are not"
    assert judge.broken_promises(records, [*SENT, *end]) == [complaint]


def test_records_that_no_instance_reported_as_sent() -> None:
    assert judge.broken_promises(GOOD, SENT[:1]) == ["b/1 was never reported as sent"]


def test_what_was_never_ended_may_not_be_there() -> None:
    reports = [*SENT, Report("c", "sent", 1, (("input/0", 2, 2),))]
    assert judge.broken_promises(GOOD, reports) == []


def test_committed_records_that_are_not_for_all() -> None:
    other = {**GOOD, 1: [(7, value) for _, value in GOOD[1]]}
    assert len(judge.not_for_all(GOOD, other)) == 2
    more = {at: [*records, (9, b"not committed")] for at, records in GOOD.items()}
    assert judge.not_for_all(GOOD, more) == []


def test_readers_that_differ() -> None:
    shorter = {**GOOD, 1: GOOD[1][1:]}
    complaint = "output/1: twice: 2 records and 1, or not the same"
    assert judge.differing(GOOD, shorter, "twice") == [complaint]


def test_input_values_differ_in_letters_too() -> None:
    values = {judge.input_value(at, number) for at in range(6) for number in range(1000)}
    assert len(values) == 6000
    assert len({value.split(b"/")[2] for value in values}) == 6000
    assert judge.input_value(1, 1) != judge.input_value(1, 1).upper()


def test_reading_a_line() -> None:
    line = b'{"t":7,"m":"a","e":"sent","a":3,"r":[["input/0",1,2]]}'
    assert read(line) == Report("a", "sent", 3, (("input/0", 1, 2),), at_ms=7)
    assert read(b'{"t":8,"m":"a","e":"ready"}') == Report("a", "ready", at_ms=8)
    line = b'{"t":9,"m":"a","e":"failed","why":"because"}'
    assert read(line) == Report("a", "failed", why="because", at_ms=9)
