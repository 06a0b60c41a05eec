"""How a session copies, and how it goes on when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror import report, session
from kavka.tools.mirror.goal import Goal
from kavka.tools.mirror.ledger import Ledger
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.pace import Pace
from kavka.tools.mirror.report import SILENCE_MS, Report
from kavka.tools.mirror.session import Session, age_to_commit
from kavka.tools.mirror.task import Task
from kavka.tools.mirror.topic_plan import Choice
from kavka.tools.mirror.unsent import Unsent

TASK = Task({}, {}, Choice(frozenset("t")), None, "", None, 5_000, False)
NOTHING = Look({}, {}, {}, {}, {}, {})
PLACE = ("t", 0)


class Looks:
    """Stands in for the looks, which may fail for this reason."""

    why = ""
    count = 0
    pause_ms = TASK.refresh_ms
    to_copy_again: frozenset[str] = frozenset()
    misses_some = False
    goal = Goal({}, {PLACE: 5})

    def next(self) -> Look:
        self.count += 1
        if self.why:
            raise Failed(self.why)
        return NOTHING

    patient = next


class Writer:
    """Stands in for the target, which acknowledges one record each time that it is listened to."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.records = self.began_ms = 0
        self.sent: list[int] = []
        self.is_silent_for = 0
        self.delivered: Callable[[], Any] = dict

    def send(self, unsent: Unsent) -> bool:
        is_free = not self.records

        def may_send(*_: object) -> bool:
            nonlocal is_free
            is_free, was_free = False, is_free
            return was_free

        self.sent += [message.offset() for _, (message, *_) in unsent.take(may_send)]
        self.records = len(unsent) and 1
        return not is_free

    def listen(self, _: float) -> None:
        self.records = 0

    def is_acknowledged(self) -> bool:
        self.is_silent_for -= 1
        return self.is_silent_for < 0


class Following(Session):
    """One that follows nothing, and counts commits."""

    def __init__(self, task: Task = TASK) -> None:
        somewhere: Any = Looks()
        super().__init__(task, Report(None), somewhere, somewhere, "ledger", "session")
        self.looks: Looks = somewhere
        self.commits = 0

    def _follow(self, look: Look) -> None:
        pass

    def _commit(self, *, writes_positions: bool = False) -> None:
        self.commits += 1


def test_a_source_that_is_down_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = Following()
    outputs = []
    for why in ("no broker", "no broker", "no leader", "no leader", "", "", "no leader"):
        found.looks.why = why
        found._refresh()
        outputs.append(capsys.readouterr().err)
    assert outputs == ["no broker\n", "", "no leader\n", "", "", "", "no leader\n"]


def test_what_was_read_before_an_error_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged:
        def read(self, _: float) -> list[Message]:
            raise Failed("t-0 can't be read from offset 3 on")

    class Continuity:
        def others(self, _: object) -> set[str]:
            return set()

    found = Following()
    writer = Writer()
    monkeypatch.setattr(found, "_reader", Damaged(), raising=False)
    monkeypatch.setattr(found, "_continuity", Continuity(), raising=False)
    monkeypatch.setattr(found, "_writer", writer, raising=False)
    found._unsent.add(Message(topic="t", partition=0, offset=at, value=b"v") for at in range(3))
    with pytest.raises(Failed, match="t-0 can't be read from offset 3 on"):
        found._step()
    assert (writer.sent, found.commits) == ([0, 1, 2], 1)


@pytest.mark.parametrize("why", ["", "no broker"])
def test_topics_are_looked_at_when_the_target_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    """Whatever comes of that, it is waited for on, and said once."""
    found, writer, now_ms = Following(), Writer(), 0

    def later() -> int:
        nonlocal now_ms
        now_ms += SILENCE_MS // 4
        return now_ms

    class Continuity:
        checked = 0

        def check_topics(self, _: Look) -> None:
            self.checked += 1

    continuity = Continuity()
    for module in (session, report):
        monkeypatch.setattr(module, "now_ms", later)
    monkeypatch.setattr(found, "_writer", writer, raising=False)
    monkeypatch.setattr(found, "_continuity", continuity, raising=False)
    found._await_acknowledgements()
    assert found.looks.count == 0 and not capsys.readouterr().err
    found.looks.why, writer.is_silent_for = why, 20
    found._await_acknowledgements()
    assert found.looks.count > 1
    assert continuity.checked == (0 if why else found.looks.count)
    warning = "waits: the target has not acknowledged what was sent within 10 s"
    assert capsys.readouterr().err.count(warning) == 1


@pytest.mark.parametrize(
    ("commit_ms", "timeout_ms", "age_ms"),
    [
        (10, 60_000, 1_000),
        (500, 60_000, 5_000),
        (9_000, 60_000, 10_000),
        (9_000, 6_000, 2_000),
        (10, 1_500, 500),
    ],
)
def test_commits_take_a_small_part_of_the_time(
    commit_ms: int, timeout_ms: int, age_ms: int
) -> None:
    assert age_to_commit(commit_ms, timeout_ms) == age_ms


def test_what_was_read_of_a_topic_in_whose_place_another_is_now_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new one is read from its beginning."""

    class Ledgerless:
        def forget(self, _: Look, topics: set[str]) -> list[object]:
            assert not topics
            return []

        def check_topics(self, _: Look) -> None: ...

        def replaced(self, _: Look) -> set[str]:
            return {"t"}

        def new_topics(self, _: Look) -> list[object]:
            return []

        def beginnings(self, look: Look, topic_partitions: list[tuple[str, int]]) -> dict[Any, int]:
            return {
                topic_partition: look.starts[topic_partition]
                for topic_partition in topic_partitions
            }

        def first_positions(self, begins: dict[Any, int], replaced: set[str]) -> list[object]:
            assert replaced == {"t"} and ("t", 0) in begins
            return []

    class Reads:
        positions = {PLACE: 5, ("u", 0): 7}

        def drop(self, topic_partitions: list[tuple[str, int]]) -> None:
            for topic_partition in topic_partitions:
                del self.positions[topic_partition]

        def take(self, positions: dict[Any, int]) -> None:
            self.positions |= positions

    writer: Any = Writer()
    monkeypatch.setattr(writer, "write", lambda *_: None, raising=False)
    monkeypatch.setattr(writer, "commit", lambda: None, raising=False)
    somewhere: Any = Looks()
    found = Session(TASK, Report(None), somewhere, somewhere, "ledger", "session")
    monkeypatch.setattr(found, "_writer", writer, raising=False)
    monkeypatch.setattr(found, "_reader", Reads(), raising=False)
    monkeypatch.setattr(found, "_continuity", Ledgerless(), raising=False)
    found._unsent.add(
        Message(topic=topic, partition=0, offset=4, value=b"old") for topic in ("t", "u")
    )
    found._follow(NOTHING._replace(starts={PLACE: 0, ("u", 0): 0}))
    assert Reads.positions == {PLACE: 0, ("u", 0): 7}
    assert found._unsent.positions() == {("u", 0): 4}


class Doubts:
    """u may be another topic by now."""

    def others(self, topics: set[str]) -> set[str]:
        return topics & {"u"}


def test_a_topic_that_is_back_at_the_last_look_is_copied_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not there when all else was copied."""

    class Back(Following):
        def _follow(self, look: Look) -> None:
            self._reader.positions.setdefault(PLACE, 1)

    class Reads:
        def __init__(self) -> None:
            self.positions: dict[tuple[str, int], int] = {}

        def read(self, _: float) -> list[Message]:
            at = self.positions[PLACE]
            self.positions[PLACE] += 1
            return [Message(topic="t", partition=0, offset=at, value=b"v")]

        def rest(self, _: object) -> None: ...

        def resume(self, _: object) -> None: ...

    found, writer = Back(TASK._replace(until_caught_up=True)), Writer()
    monkeypatch.setattr(found, "_writer", writer, raising=False)
    monkeypatch.setattr(found, "_reader", Reads(), raising=False)
    monkeypatch.setattr(found, "_continuity", Doubts(), raising=False)
    found._copy()
    assert writer.sent == [1, 2, 3, 4]


def test_it_does_not_end_while_a_topic_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Following(TASK._replace(until_caught_up=True))
    reader: Any = type("Reads", (), {"positions": {}})
    monkeypatch.setattr(found, "_reader", reader, raising=False)
    assert found._is_done()
    found.looks.misses_some = True
    assert not found._is_done()


class Reads:
    """Stands in for the reader of three topics."""

    def __init__(self, *messages: Message) -> None:
        self.positions = {PLACE: 1, ("u", 0): 5, ("v", 0): 0}
        self._messages = list(messages)

    def read(self, _: float) -> list[Message]:
        return self._messages

    def drop(self, topic_partitions: list[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            del self.positions[topic_partition]

    def rest(self, topic_partitions: list[TopicPartition]) -> None:
        assert not topic_partitions

    resume = rest


@pytest.fixture
def doubting(monkeypatch: pytest.MonkeyPatch) -> tuple[Session, Any]:
    """A session, and what it writes."""
    somewhere: Any = Looks()
    writer: Any = Writer()
    writer.written = []
    writer.write = lambda _, entries: writer.written.extend(entries)
    writer.commit = lambda: None
    found = Session(TASK, Report(None), somewhere, somewhere, "ledger", "session")
    messages = (Message(topic=name, partition=0, offset=0, value=b"v") for name in "tu")
    monkeypatch.setattr(found, "_writer", writer, raising=False)
    monkeypatch.setattr(found, "_reader", Reads(*messages), raising=False)
    monkeypatch.setattr(found, "_ledger", Ledger([]), raising=False)
    monkeypatch.setattr(found, "_continuity", Doubts(), raising=False)
    monkeypatch.setattr(found, "_look_ms", 10**18)
    return found, writer


def test_what_may_be_another_topic_s_is_not_sent_and_looked_at(doubting: Any) -> None:
    found, writer = doubting
    found._step()
    assert writer.sent == [0]
    assert found._reader.positions.keys() == {PLACE, ("v", 0)}
    assert found._unsent.topics == set()
    assert found._look_ms < 10**18, "a look is due"


def test_the_ledger_says_nothing_of_what_may_be_another_topic_s(doubting: Any) -> None:
    """Of which nothing was read that can be sent."""
    found, writer = doubting
    writer.epochs = {}
    writer.delivered = lambda: {PLACE: ([0], [0])}
    found._commit()
    assert found._ledger.position(PLACE) == 1
    assert ("u", 0) in found._reader.positions
    found._commit(writes_positions=True)
    assert found._ledger.position(("u", 0)) is None
    assert found._reader.positions.keys() == {PLACE, ("v", 0)}
    assert found._look_ms < 10**18, "a look is due"
