"""A journal that has very many answers to give: a step at a time, in order, each of them once."""

from __future__ import annotations

from kavka.log.journal import Decision, Journal, JournalRecord, Reply, ReplyFuture
from kavka.wire.steps import ITEMS_PER_STEP, run_at_once
from support.toy_machine import Toy, ToyPort

TIMEOUT_MS = 100
MANY = 4 * ITEMS_PER_STEP


class Kit:
    """A journal over a toy, from offset 0 on."""

    def __init__(self) -> None:
        self.toy = Toy()
        self.port = ToyPort()
        self.journal = Journal(self.toy, self.port, applied_end=0, commit_timeout_ms=TIMEOUT_MS)

    def put(self, value: bytes = b"1") -> ReplyFuture:
        future = ReplyFuture()
        run_at_once(self.journal.execute_in_steps(self.toy.put(future, b"a", value), 0))
        return future


def test_many_answers_are_given_a_step_at_a_time_and_in_order() -> None:
    kit = Kit()
    given: list[int] = []
    futures = [kit.put(value=b"%d" % number) for number in range(MANY)]
    for number, future in enumerate(futures):
        future.on_complete = lambda _, number=number: given.append(number)
    kit.port.high_watermark = kit.port.end
    steps = []
    while kit.journal.has_due_replies:
        kit.journal.release_replies()
        steps.append(len(given))
    assert given == list(range(MANY))
    assert steps == [ITEMS_PER_STEP * step for step in range(1, 5)]


def test_requests_during_a_long_reply_are_answered_after_it() -> None:
    kit = Kit()
    futures = [kit.put() for _ in range(MANY)]
    kit.port.high_watermark = kit.port.end + 1
    last = kit.put()  # which is committed as soon as it is appended
    assert not last.is_complete and not all(future.is_complete for future in futures)
    while kit.journal.has_due_replies:
        assert not last.is_complete
        kit.journal.release_replies()
    assert last.response == b"1" and all(future.is_complete for future in futures)


def test_a_committed_decision_succeeds_though_its_deadline_expires_before_the_reply() -> None:
    kit = Kit()
    futures = [kit.put() for _ in range(MANY)]
    kit.port.high_watermark = kit.port.end
    kit.journal.release_replies()
    assert kit.journal.wake_at() is None
    assert not run_at_once(kit.journal.tick_in_steps(2 * TIMEOUT_MS))
    while kit.journal.has_due_replies:
        kit.journal.release_replies()
    assert all(future.is_complete and future.failure is None for future in futures)


def test_one_decision_with_many_answers_gives_them_in_steps_and_then_its_commands() -> None:
    kit = Kit()
    futures = [ReplyFuture() for _ in range(MANY)]
    replies = [Reply(future, number) for number, future in enumerate(futures)]
    records = [JournalRecord(b"a", b"1")]
    run_at_once(kit.journal.execute_in_steps(Decision(records, replies, commands=["go"]), 0))
    kit.port.high_watermark = kit.port.end
    steps = []
    while kit.journal.has_due_replies:
        assert not kit.journal.commands
        kit.journal.release_replies()
        steps.append(sum(future.is_complete for future in futures))
    assert steps == [ITEMS_PER_STEP * step for step in range(1, 5)]
    assert [future.response for future in futures] == list(range(MANY))
    assert list(kit.journal.commands) == ["go"]
