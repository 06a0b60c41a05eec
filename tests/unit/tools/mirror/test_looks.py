"""What is said of looks at both clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import looks
from kavka.tools.mirror.failures import Declined
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.looks import (
    FIRST_WITHIN_MS,
    GONE_MS,
    MISSED_PAUSE_MS,
    Looks,
    once_answered,
)
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


def test_a_deleted_topic_is_named_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """When it was missed for a while."""
    looks = GONE_MS // MISSED_PAUSE_MS
    some = looking(found("a", "b"), *[found("b")] * (looks + 2))
    some.first()
    outputs, missed = [], []
    for look in (some.next, *[some.patient] * looks, some.next):
        look()
        clock.now_ms += MISSED_PAUSE_MS
        outputs.append(capsys.readouterr().err)
        missed.append(some.misses_some)
    deleted = "a was deleted in the source: nothing more of it is copied\n"
    assert outputs == [*[""] * looks, deleted, ""]
    assert missed == [*[True] * looks, False, False]


def test_time_without_a_look_says_little_of_a_topic(clock: Clock) -> None:
    """The source was down, and may have just started."""
    some = looking(found("a"), *[found()] * 2)
    some.first()
    for _ in range(2):
        some.next()
        clock.now_ms += 10 * GONE_MS
    assert some.misses_some


def test_a_topic_that_comes_back_was_not_deleted(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often it goes, as when brokers are started again and again."""
    nothing, both = found(), found("a", "b")
    some = looking(both, nothing, both, nothing, both)
    some.first()
    for is_missed in (True, False, True, False):
        clock.now_ms += GONE_MS
        some.next()
        assert some.misses_some == is_missed
    assert capsys.readouterr().err == ""


def test_a_partition_is_missed_while_its_topic_is_there() -> None:
    more = found("a")
    some = looking(more._replace(ends={**more.ends, ("a", 1): 7}), more)
    some.first()
    some.next()
    assert some.misses_some


def test_what_was_not_there_at_the_first_look_holds_up_no_end() -> None:
    some = looking(found("a"), found("a", "new"), found("a"))
    some.first()
    some.next()
    some.next()
    assert not some.misses_some


def test_a_missed_topic_is_looked_for_soon() -> None:
    seldom = TASK._replace(refresh_ms=600_000)
    some = looking(found("a"), found(), found("a"), task=seldom)
    some.first()
    assert some.pause_ms == seldom.refresh_ms
    some.next()
    assert some.pause_ms == MISSED_PAUSE_MS
    some.next()
    assert some.pause_ms == seldom.refresh_ms


def test_another_topic_of_a_name_is_not_in_the_goal() -> None:
    other = {"a": Topic("a", "another", 1, {}, frozenset())}
    some = looking(found("a", "b"), found("a", "b")._replace(source=other))
    some.first()
    some.next()
    assert some.goal.ends == {("b", 0): 5}


def test_brokers_may_be_down_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    some = looking(Failed("no broker"), Failed("no broker"), found("a"))
    assert some.first() == found("a")
    assert some.goal.ends == {("a", 0): 5}
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
    message = "the source has no topics b, c to copy"
    assert capsys.readouterr().err == f"{message}: waits for it\n"
    with pytest.raises(Failed, match=message):
        looking(found("a"), task=task._replace(until_caught_up=True)).first()
    again = TASK._replace(copy_again=frozenset({"d"}), until_caught_up=True)
    with pytest.raises(Failed, match="the source has no topic d to copy"):
        looking(found("a"), task=again).first()
    with pytest.raises(Failed, match="the source has no such topic"):
        looking(found(), task=TASK._replace(until_caught_up=True)).first()


EMPTY = found()._replace(source_is_empty=True)


def test_a_source_without_any_topic_may_have_just_started(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    task = TASK._replace(choice=Choice(frozenset("t")), until_caught_up=True)
    assert looking(EMPTY, EMPTY, found("t"), task=task).first() == found("t")
    assert "waits: the source has no topics" in capsys.readouterr().err
    assert clock.now_ms == 1_000 + 2 * 1_000


def test_a_source_without_any_topic_is_not_waited_for_for_ever(clock: Clock) -> None:
    task = TASK._replace(choice=Choice(frozenset("t")), until_caught_up=True)
    with pytest.raises(Failed, match="the source has no topic t to copy"):
        looking(*[EMPTY] * 40, task=task).first()
    assert FIRST_WITHIN_MS <= clock.now_ms - 1_000 <= 2 * FIRST_WITHIN_MS


def test_what_others_are_there_says_that_a_topic_is_not() -> None:
    task = TASK._replace(choice=Choice(frozenset("t")), until_caught_up=True)
    with pytest.raises(Failed, match="the source has no topic t to copy"):
        looking(found(), task=task).first()


@pytest.mark.parametrize("ends_declined", [False, True])
def test_who_is_not_let_in_is_waited_for_or_not(ends_declined: bool) -> None:
    answers = iter([Failed("no broker answers"), Declined("not let in"), None])

    def ask() -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        return "found"

    if ends_declined:
        with pytest.raises(Declined):
            once_answered(ask, Report(None), ends_declined=True)
    else:
        assert once_answered(ask, Report(None)) == "found"
