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
from kavka.tools.mirror.topic_plan import Choice, Topic

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


class Looked:
    """Stands in for both clusters: what the source has, look by look."""

    def __init__(self, *looks: set[str]) -> None:
        self._looks = iter(looks)

    def make_ledger(self, *_: object) -> None:
        pass

    def look(self, _: object) -> Look:
        topics = {name: Topic(name, "id", 1, {}, frozenset()) for name in next(self._looks)}
        return Look(topics, topics, {}, {}, {}, {})


def test_a_deleted_topic_is_named_once_in_whichever_session(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(TASK, Report(None))
    monkeypatch.setattr(mirror, "_ledger_topic", "ledger", raising=False)
    monkeypatch.setattr(mirror, "_clusters", Looked({"a", "b"}, {"b"}, {"b"}))
    said = []
    for _ in range(3):
        mirror._look()
        said.append(capsys.readouterr().err)
    assert said == ["", "a was deleted in the source: nothing more of it is copied\n", ""]


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
