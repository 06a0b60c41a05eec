"""Callbacks of the records that a decision is about to append."""

from __future__ import annotations

from kavka.groupcoord.classic.pending_generations import Proposals
from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ErrorCode

RECORD = JournalRecord(b"key", b"value")


def test_the_callback_runs_once_when_the_record_is_appended() -> None:
    done: list[str] = []
    before = JournalRecord(b"before", None)
    proposals, out = Proposals(), Decision(records=[before])
    proposals.propose(out, RECORD, done=lambda: done.append("done"))
    assert out.records == [before, RECORD]
    assert (proposals.applied(before), done) == (False, [])
    assert (proposals.applied(RECORD), done) == (True, ["done"])
    assert (proposals.applied(RECORD), done) == (False, ["done"])


def test_an_equal_record_from_the_log_is_not_the_proposed_one() -> None:
    proposals = Proposals()
    proposals.propose(Decision(), RECORD)
    assert not proposals.applied(JournalRecord(RECORD.key, RECORD.value))


def test_an_appended_record_can_not_be_refused() -> None:
    proposals, out = Proposals(), Decision()
    proposals.propose(out, RECORD, refused=lambda code, now_ms: Decision())
    assert out.on_failure is not None
    assert out.on_failure(ErrorCode.NOT_COORDINATOR, 0) == Decision()
    proposals.applied(RECORD)
    assert out.on_failure is None


def test_a_proposal_replaces_the_one_before() -> None:
    done: list[str] = []
    proposals, other = Proposals(), JournalRecord(b"key", b"other")
    proposals.propose(Decision(), RECORD, done=lambda: done.append("first"))
    proposals.propose(Decision(), other, done=lambda: done.append("second"))
    assert not proposals.applied(RECORD)
    assert proposals.applied(other)
    assert done == ["second"]
