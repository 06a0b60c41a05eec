"""Transactions that last longer than they should."""

from __future__ import annotations

import pytest

from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.transactions import Transaction, judge_transactions

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.mark.parametrize(
    ("state", "timeout_ms", "lasts_ms", "expected"),
    [
        ("Ongoing", HOUR_MS, 15 * MINUTE_MS, None),
        ("Ongoing", HOUR_MS, 15 * MINUTE_MS + 1, (Level.WARNING, "long")),
        ("Ongoing", MINUTE_MS, 2 * MINUTE_MS, None),
        ("Ongoing", MINUTE_MS, 2 * MINUTE_MS + 1, (Level.ERROR, "overdue")),
        ("PrepareCommit", MINUTE_MS, 2 * MINUTE_MS, None),
        ("PrepareCommit", MINUTE_MS, 2 * MINUTE_MS + 1, (Level.ERROR, "unfinished")),
        ("PrepareAbort", MINUTE_MS, 2 * MINUTE_MS + 1, (Level.ERROR, "unfinished")),
        ("CompleteCommit", MINUTE_MS, HOUR_MS, None),
    ],
)
def test_how_long_one_may_last(
    state: str, timeout_ms: int, lasts_ms: int, expected: tuple[Level, str] | None
) -> None:
    partitions = frozenset({("t", 0)})
    txn = Transaction("id", 1, state, 7, timeout_ms, NOW_MS - lasts_ms, partitions)
    found = [(finding.level, finding.problem) for finding in judge_transactions([txn], NOW_MS)]
    assert found == ([] if expected is None else [expected])


def test_where_none_is_open() -> None:
    assert not judge_transactions([Transaction("id", 1, "Empty", 7, 1, -1, frozenset())], NOW_MS)
