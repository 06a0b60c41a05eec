"""How the mirror goes on when something goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import mirroring
from kavka.tools.mirror.failures import TRIES_MAX, Again, Fenced, Stuck
from kavka.tools.mirror.looks import RETRY_S
from kavka.tools.mirror.mirroring import Mirror
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.topic_plan import Choice

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
TASK = Task(SERVERS, SERVERS, Choice(frozenset("t")), None, "", None, 5_000, False)


def test_it_waits_longer_each_time_a_partition_is_stuck_and_then_ends() -> None:
    mirror = Mirror(TASK, Report(None))
    stuck = Stuck(("t", 0), "the target refuses it", "leave it out")
    pauses = [mirror._pause_s(stuck, "ledger", "session") for _ in range(TRIES_MAX - 1)]
    assert pauses == [2 * RETRY_S, 4 * RETRY_S, 8 * RETRY_S, 16 * RETRY_S]
    with pytest.raises(Failed, match="the target refuses it, 5 times now; leave it out"):
        mirror._pause_s(stuck, "ledger", "session")


def test_whatever_else_goes_wrong_it_begins_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And later, if that is all that happens."""

    def unreadable(*_: Any) -> bool:
        raise Again("ledger-0 is not readable at 3")

    monkeypatch.setattr(mirroring, "has_successor", unreadable)
    report = Report(None)
    mirror = Mirror(TASK, report)
    for again in (Again("no answer"), Fenced("another one?")) * 3:
        assert mirror._pause_s(again, "ledger", "session") == 0
        report.records["t", 0] += 1
    pauses = [mirror._pause_s(Again("no answer"), "ledger", "session") for _ in range(4)]
    assert pauses == [0, 1, 2, 4]
