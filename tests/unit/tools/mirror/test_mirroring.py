"""What a mirror says, and how it goes on, when something goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import mirroring
from kavka.tools.mirror.clusters import Look
from kavka.tools.mirror.failures import TRIES_MAX, Again, Fenced, Stuck
from kavka.tools.mirror.mirroring import RETRY_S, Mirror, Session, Task
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.topic_plan import Choice

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
TASK = Task(SERVERS, SERVERS, Choice(frozenset("t")), None, "", None, 5_000, False)
NOTHING = Look({}, {}, {}, {}, {}, {})


class Down(Mirror):
    """One that can't look at the clusters, for this reason."""

    _ledger_topic = "ledger"
    why = ""

    def _look(self) -> Look:
        if self.why:
            raise Failed(self.why)
        return NOTHING


class Idle(Session):
    """One that follows nothing."""

    def _follow(self, look: Look) -> None:
        pass


def test_a_source_that_is_down_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    mirror = Down(TASK, Report(None))
    session = Idle(mirror, NOTHING, "session")
    said = []
    for why in ("no broker", "no broker", "no leader", "no leader", "", "", "no leader"):
        mirror.why = why
        session._refresh()
        said.append(capsys.readouterr().err)
    assert said == ["no broker\n", "", "no leader\n", "", "", "", "no leader\n"]


def test_it_waits_longer_each_time_a_partition_is_stuck_and_then_ends() -> None:
    mirror = Mirror(TASK, Report(None))
    stuck = Stuck(("t", 0), "the target refuses it", "leave it out")
    pauses = [mirror._pause_s(stuck, "session") for _ in range(TRIES_MAX - 1)]
    assert pauses == [2 * RETRY_S, 4 * RETRY_S, 8 * RETRY_S, 16 * RETRY_S]
    with pytest.raises(Failed, match="the target refuses it, 5 times now; leave it out"):
        mirror._pause_s(stuck, "session")


def test_whatever_else_goes_wrong_it_begins_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any) -> bool:
        raise Again("ledger-0 is not readable at 3")

    monkeypatch.setattr(mirroring, "has_successor", unreadable)
    mirror = Down(TASK, Report(None))
    for _ in range(20):
        assert mirror._pause_s(Again("no answer"), "session") == 0
        assert mirror._pause_s(Fenced("another one?"), "session") == 0
