"""A machine that raises where it must not: what it fails at is lost, and nothing else."""

from __future__ import annotations

import pytest

from kavka.log.journal import (
    FAILED_DEADLINE_RETRY_MS,
    ApplyFailed,
    Decision,
    Journal,
    JournalRecord,
    Producer,
    Reply,
    ReplyFuture,
)
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.toy_machine import BROKEN, Toy, ToyPort

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


class Kit:
    """A journal over a toy, whose records are committed at once."""

    def __init__(self) -> None:
        self.toy = Toy()
        self.port = ToyPort()
        self.port.high_watermark = 1 << 40
        self.journal = Journal(self.toy, self.port, applied_end=0, commit_timeout_ms=100)

    def pend(self, key: bytes, producer_id: int) -> None:
        """Set a number in a transaction."""
        run_at_once(
            self.journal.execute_in_steps(
                self.toy.put(
                    ReplyFuture(), key, b"%d" % producer_id, producer=Producer(producer_id, 0)
                ),
                0,
            )
        )

    def mark(self, producer_id: int) -> None:
        self.port.end += 1
        run_at_once(self.journal.marker_appended(producer_id, 0, True, self.port.end))


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.mark.parametrize("count", [1, 1000])
def test_a_record_that_can_not_be_applied_keeps_no_marker_and_no_answer(
    kit: Kit, count: int
) -> None:
    kit.pend(b"a", 7)
    future = ReplyFuture()
    records = [JournalRecord(b"%d" % number, b"1") for number in range(count)]
    records.insert(count // 2, JournalRecord(BROKEN, b""))
    work = kit.journal.execute_in_steps(Decision(records, [Reply(future, "done")]), 0)
    with pytest.raises(ApplyFailed):
        run_at_once(work)
    assert future.failure is not None and future.failure.code == UNKNOWN
    if count > 1:
        assert kit.toy.numbers[b"%d" % (count - 1)] == b"1", "the others are in the log too"
    kit.mark(7)
    assert kit.toy.numbers[b"a"] == b"7"


def test_a_marker_that_comes_meanwhile_is_applied(kit: Kit) -> None:
    kit.pend(b"a", 7)
    records = [
        JournalRecord(BROKEN, b""),
        *(JournalRecord(b"%d" % number, b"1") for number in range(1000)),
    ]
    work = kit.journal.execute_in_steps(Decision(records), 0)
    while b"999" not in kit.toy.numbers:
        next(work)
    kit.mark(7)
    assert b"a" not in kit.toy.numbers, "it comes behind the records"
    with pytest.raises(ApplyFailed):
        run_at_once(work)
    assert kit.toy.numbers[b"a"] == b"7"


def test_a_marker_that_can_not_be_applied_keeps_no_other(kit: Kit) -> None:
    for producer_id in (7, 8, 9):
        kit.pend(b"%d" % producer_id, producer_id)
    kit.toy.pending[7].append(JournalRecord(BROKEN, b""))
    kit.toy.pending[7].append(JournalRecord(b"never", b""))
    work = kit.journal.marker_appended(7, 0, True, 5)
    next(work)
    kit.mark(8)
    assert b"8" not in kit.toy.numbers, "one after the other"
    with pytest.raises(ApplyFailed):
        run_at_once(work)
    assert kit.toy.numbers[b"8"] == b"8", "it waited for the broken one"
    kit.mark(9)
    assert kit.toy.numbers[b"9"] == b"9", "it came later"


def test_a_deadline_that_fails_is_tried_again_but_not_at_once(kit: Kit) -> None:
    run_at_once(kit.journal.execute_in_steps(kit.toy.park(ReplyFuture(), BROKEN, 10), 0))
    for now_ms in (10, 10 + FAILED_DEADLINE_RETRY_MS):
        with pytest.raises(ValueError, match="unknown"):
            run_at_once(kit.journal.tick_in_steps(now_ms))
        assert not run_at_once(kit.journal.tick_in_steps(now_ms + FAILED_DEADLINE_RETRY_MS - 1))


def test_a_failing_deadline_that_was_set_again_is_delayed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a time that has come already, as what goes on in steps does."""

    def expire(key: bytes, now_ms: int) -> Decision:
        kit.toy.timers.set(key, now_ms)
        raise ValueError("broken")

    monkeypatch.setattr(kit.toy, "expire", expire)
    kit.toy.timers.set(b"a", 10)
    with pytest.raises(ValueError, match="broken"):
        run_at_once(kit.journal.tick_in_steps(10))
    assert not run_at_once(kit.journal.tick_in_steps(10))
    assert kit.toy.timers.at(b"a") == 10 + FAILED_DEADLINE_RETRY_MS


def test_an_exception_in_on_failure_fails_the_replies(kit: Kit) -> None:
    def refused(code: ErrorCode, now_ms: int) -> Decision:
        raise ValueError("broken")

    kit.port.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    future = ReplyFuture()
    decision = Decision([JournalRecord(b"a", b"1")], [Reply(future, "done")], on_failure=refused)
    with pytest.raises(ValueError, match="broken"):
        run_at_once(kit.journal.execute_in_steps(decision, 0))
    assert future.failure is not None
    assert future.failure.code == ErrorCode.NOT_COORDINATOR
