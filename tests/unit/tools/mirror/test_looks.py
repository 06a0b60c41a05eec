"""What is said of looks at both clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import looks
from kavka.tools.mirror.failures import Declined
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.looks import FIRST_WITHIN_MS, Looks
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.topic_plan import Choice, Topic

TASK = Task({}, {}, Choice(frozenset()), None, "", None, 5_000, False)
REFUSED = "the target does not take the configs of topic t: INVALID_CONFIG"


def found(*names: str, refused: dict[str, str] | None = None) -> Look:
    """A look at these topics of the source."""
    topics = {name: Topic(name, "id", 1, {}, frozenset()) for name in names}
    ends = {(name, 0): 5 for name in names}
    return Look(topics, topics, ends, ends, {}, {}, refused or {})


class Clusters:
    """Stands in for both of them: what they have, or why they don't say it, look by look."""

    def __init__(self, *answers: Look | Failed) -> None:
        self._answers = iter(answers)

    def make_ledger(self, *_: object) -> None:
        pass

    def look(self, _: object) -> Look:
        answer = next(self._answers)
        if isinstance(answer, Failed):
            raise answer
        return answer


class Clock:
    """Stands in for the time; it goes on while one sleeps."""

    now_ms = 1_000

    def sleep(self, time_s: float) -> None:
        self.now_ms += round(1000 * time_s)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(looks, "now_ms", lambda: found.now_ms)
    monkeypatch.setattr(time, "sleep", found.sleep)
    return found


def looking(*answers: Look | Failed, task: Task = TASK) -> Looks:
    clusters: Any = Clusters(*answers)
    return Looks(task, Report(None), clusters, "ledger")


def test_a_deleted_topic_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    some = looking(found("a", "b"), found("b"), found("b"))
    said = []
    for look in (some.first, some.next, some.patient):
        look()
        said.append(capsys.readouterr().err)
    assert said == ["", "a was deleted in the source: nothing more of it is copied\n", ""]


def test_brokers_may_be_down_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    some = looking(Failed("no broker"), Failed("no broker"), found("a"))
    assert some.first() == found("a")
    assert some.goal == {("a", 0): 5}
    assert capsys.readouterr().err == "waits: no broker\n"


def test_but_not_for_ever(clock: Clock) -> None:
    with pytest.raises(Failed, match="no broker"):
        looking(*(Failed("no broker") for _ in range(100))).first()
    assert clock.now_ms == 1_000 + FIRST_WITHIN_MS


def test_a_refusal_ends_it_at_the_start() -> None:
    with pytest.raises(Failed, match="not authorized"):
        looking(Declined("not authorized")).first()
    with pytest.raises(Failed, match=REFUSED):
        looking(found("t", "u", refused={"t": REFUSED})).first()


def test_later_the_refusal_of_a_topic_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A topic that is left out for it was not deleted."""
    refused = found("u", refused={"t": REFUSED})
    some = looking(found("t", "u"), refused, refused)
    some.first()
    assert some.patient() == some.next() == refused
    assert capsys.readouterr().err == f"{REFUSED}\n"


def test_it_waits_for_clusters_as_long_as_they_like(capsys: pytest.CaptureFixture[str]) -> None:
    down = [Failed("no broker")] * 500
    assert looking(*down, Declined("not authorized"), found("a")).patient() == found("a")
    assert capsys.readouterr().err == "waits: no broker\nwaits: not authorized\n"


def test_topics_that_are_named_are_to_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    task = TASK._replace(choice=Choice(frozenset({"a", "b", "c"})))
    looking(found("a"), task=task).first()
    said = "the source has no topics b, c to copy"
    assert capsys.readouterr().err == f"{said}: waits for it\n"
    with pytest.raises(Failed, match=said):
        looking(found("a"), task=task._replace(until_caught_up=True)).first()
    with pytest.raises(Failed, match="the source has no such topic"):
        looking(found(), task=TASK._replace(until_caught_up=True)).first()
