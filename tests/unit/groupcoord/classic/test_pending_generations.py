"""Callbacks of the records that a decision is about to append."""

from __future__ import annotations

from kavka.groupcoord.classic.pending_generations import PendingGenerations
from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ErrorCode

RECORD = JournalRecord(b"key", b"value")


def test_the_callback_runs_once_when_the_record_is_appended() -> None:
    done: list[str] = []
    before = JournalRecord(b"before", None)
    pending, out = PendingGenerations(), Decision(records=[before])
    pending.propose(out, RECORD, done=lambda: done.append("done"))
    assert out.records == [before, RECORD]
    assert (pending.applied(before), done) == (False, [])
    assert (pending.applied(RECORD), done) == (True, ["done"])
    assert (pending.applied(RECORD), done) == (False, ["done"])


def test_an_equal_record_from_the_log_is_not_the_proposed_one() -> None:
    pending = PendingGenerations()
    pending.propose(Decision(), RECORD)
    assert not pending.applied(JournalRecord(RECORD.key, RECORD.value))


def test_an_appended_record_can_not_be_refused() -> None:
    pending, out = PendingGenerations(), Decision()
    pending.propose(out, RECORD, refused=lambda code, now_ms: Decision())
    assert out.on_failure is not None
    assert out.on_failure(ErrorCode.NOT_COORDINATOR, 0) == Decision()
    pending.applied(RECORD)
    assert out.on_failure is None


def test_a_proposal_replaces_the_one_before() -> None:
    done: list[str] = []
    pending, other = PendingGenerations(), JournalRecord(b"key", b"other")
    pending.propose(Decision(), RECORD, done=lambda: done.append("first"))
    pending.propose(Decision(), other, done=lambda: done.append("second"))
    assert not pending.applied(RECORD)
    assert pending.applied(other)
    assert done == ["second"]
