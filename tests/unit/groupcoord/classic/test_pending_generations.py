"""Records that a decision is about to append."""

from __future__ import annotations

from kavka.groupcoord.classic.pending_generations import Proposals
from kavka.log.journal import Decision, Record
from kavka.wire.errors import ErrorCode

RECORD = Record(b"key", b"value")


def test_what_is_to_be_done_is_done_once_the_record_is_in_the_log() -> None:
    done: list[str] = []
    proposals, out = Proposals(), Decision(records=[Record(b"before", None)])
    proposals.propose(out, RECORD, done=lambda: done.append("done"))
    assert out.records == [Record(b"before", None), RECORD]
    assert not done
    assert not proposals.applied(Record(b"before", None))
    assert proposals.applied(out.records[1])
    assert done == ["done"]
    assert not proposals.applied(out.records[1]), "it was done"


def test_a_record_that_looks_alike_is_another() -> None:
    proposals, out = Proposals(), Decision()
    proposals.propose(out, RECORD)
    assert not proposals.applied(Record(RECORD.key, RECORD.value))


def test_what_is_done_can_not_be_refused_any_more() -> None:
    proposals, out = Proposals(), Decision()
    proposals.propose(out, RECORD, refused=lambda code, now_ms: Decision())
    assert out.on_failure is not None
    assert out.on_failure(ErrorCode.NOT_COORDINATOR, 0) == Decision()
    proposals.applied(RECORD)
    assert out.on_failure is None


def test_the_last_one_counts() -> None:
    done: list[str] = []
    proposals = Proposals()
    proposals.propose(Decision(), RECORD, done=lambda: done.append("one"))
    other = Record(b"key", b"other")
    proposals.propose(Decision(), other, done=lambda: done.append("other"))
    assert not proposals.applied(RECORD)
    assert proposals.applied(other)
    assert done == ["other"]
