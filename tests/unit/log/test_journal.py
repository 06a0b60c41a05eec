"""The journal: no reply before the commit, and replay leads to the live state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kavka.log import journal as journal_module
from kavka.log.journal import Decision, Journal, JournalRecord, Producer, Reply, ReplyFuture
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, run_at_once
from support.toy_machine import Toy, ToyPort

TIMEOUT_MS = 100
KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.none() | st.integers(0, 9).map(lambda number: b"%d" % number)
CODES = st.sampled_from(
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]
)


class Kit:
    """A journal over a toy, from offset 0 on."""

    def __init__(self) -> None:
        self.toy = Toy()
        self.port = ToyPort()
        self.journal = Journal(self.toy, self.port, applied_end=0, commit_timeout_ms=TIMEOUT_MS)

    def put(self, key: bytes = b"a", value: bytes | None = b"1", **more: Any) -> ReplyFuture:
        future = ReplyFuture()
        run_at_once(self.journal.execute_in_steps(self.toy.put(future, key, value, **more), 0))
        return future

    def get(self, key: bytes = b"a") -> ReplyFuture:
        future = ReplyFuture()
        run_at_once(self.journal.execute_in_steps(self.toy.get(future, key), 0))
        return future

    def commit(self) -> None:
        self.port.high_watermark = self.port.end
        self.journal.release_replies()


def code_of(future: ReplyFuture) -> ErrorCode | None:
    assert future.is_complete
    return None if future.failure is None else future.failure.code


def test_a_reply_is_sent_when_its_records_are_committed() -> None:
    kit = Kit()
    future = kit.put(command="go")
    assert kit.toy.numbers == {b"a": b"1"}, "applied at once"
    assert not future.is_complete
    assert not kit.journal.commands
    kit.commit()
    assert future.response == b"1"
    assert list(kit.journal.commands) == ["go"]


def test_a_reply_without_records_waits_for_the_records_before_it() -> None:
    kit = Kit()
    kit.put()
    assert not kit.journal.is_fully_committed
    read = kit.get()
    assert not read.is_complete
    kit.commit()
    assert read.response == b"1"
    assert kit.journal.is_fully_committed


def test_a_reply_without_records_is_immediate_when_all_is_committed() -> None:
    kit = Kit()
    kit.put()
    kit.commit()
    assert kit.get().response == b"1"


def test_futures_are_sent_in_the_order_of_requests() -> None:
    kit = Kit()
    order: list[str] = []
    first = kit.put()
    first.on_complete = lambda _: order.append("first")
    kit.port.high_watermark = kit.port.end  # of which the journal was not notified yet
    future = ReplyFuture()
    future.on_complete = lambda _: order.append("second")
    run_at_once(kit.journal.execute_in_steps(kit.toy.get(future, b"a"), 0))
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("failed", "reported"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_decision_that_can_not_be_appended_changes_nothing(
    failed: ErrorCode, reported: ErrorCode
) -> None:
    """The codes are those of Apache Kafka's CoordinatorOperationExceptionHelper."""
    kit = Kit()
    kit.port.failures = [failed]
    future = kit.put(command="go")
    assert code_of(future) == reported
    assert not kit.toy.numbers
    assert not kit.journal.commands
    assert kit.get().response is None


def test_the_machine_chooses_the_reply_when_an_append_fails() -> None:
    kit = Kit()
    kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS]
    future = kit.put(on_refusal="sorry")
    assert future.response == "sorry"
    assert kit.toy.refusals == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, 0)]


def test_a_request_times_out_and_its_records_stay() -> None:
    kit = Kit()
    early, late = kit.put(), kit.put(b"b", on_refusal="sorry")
    assert kit.journal.wake_at() == TIMEOUT_MS
    assert not run_at_once(kit.journal.tick_in_steps(TIMEOUT_MS - 1))
    assert run_at_once(kit.journal.tick_in_steps(TIMEOUT_MS))
    assert code_of(early) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run_at_once(kit.journal.tick_in_steps(TIMEOUT_MS))
    assert not run_at_once(kit.journal.tick_in_steps(TIMEOUT_MS))
    assert late.response == "sorry"
    kit.commit()
    assert kit.toy.refusals == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, TIMEOUT_MS)]
    assert kit.toy.numbers == {b"a": b"1", b"b": b"1"}
    assert len(kit.port.batches) == 2


def test_a_reply_waits_for_the_records_that_replace_refused_ones() -> None:
    kit = Kit()
    kit.port.failures = [ErrorCode.MESSAGE_TOO_LARGE]
    future = ReplyFuture()
    decision = kit.toy.put(future, b"a", b"big")
    decision.on_failure = lambda code, _: kit.toy.put(future, b"a", b"small")
    run_at_once(kit.journal.execute_in_steps(decision, 0))
    assert not future.is_complete
    kit.commit()
    assert future.response == b"small"
    assert kit.toy.numbers == {b"a": b"small"}


def test_deadlines_of_the_machine_lead_to_records() -> None:
    kit = Kit()
    future = ReplyFuture()
    run_at_once(kit.journal.execute_in_steps(kit.toy.park(future, b"a", 30), 0))
    assert kit.journal.wake_at() == 30
    assert not run_at_once(kit.journal.tick_in_steps(29))
    assert run_at_once(kit.journal.tick_in_steps(30))
    assert not future.is_complete
    kit.commit()
    assert future.response == b"1"
    assert kit.journal.wake_at() is None


def test_the_next_deadline_is_the_earlier_of_both() -> None:
    kit = Kit()
    run_at_once(kit.journal.execute_in_steps(kit.toy.park(ReplyFuture(), b"a", TIMEOUT_MS + 1), 0))
    assert kit.journal.wake_at() == TIMEOUT_MS + 1
    kit.put(b"b")
    assert kit.journal.wake_at() == TIMEOUT_MS


def test_resigning_fails_all_pending_requests() -> None:
    kit = Kit()
    written, read, parked = kit.put(command="go"), kit.get(), ReplyFuture()
    run_at_once(kit.journal.execute_in_steps(kit.toy.park(parked, b"a", 30), 0))
    kit.journal.resign(ErrorCode.NOT_COORDINATOR)
    kit.journal.resign(ErrorCode.UNKNOWN_SERVER_ERROR)
    for future in (written, read, parked):
        assert code_of(future) == ErrorCode.NOT_COORDINATOR
    kit.commit()
    assert not kit.journal.commands


def test_nothing_is_done_after_resigning() -> None:
    kit = Kit()
    run_at_once(kit.journal.execute_in_steps(kit.toy.park(ReplyFuture(), b"a", 30), 0))
    kit.journal.resign(ErrorCode.NOT_COORDINATOR)
    assert not run_at_once(kit.journal.tick_in_steps(30))
    assert code_of(kit.put(on_refusal="sorry")) == ErrorCode.NOT_COORDINATOR
    assert code_of(kit.get()) == ErrorCode.NOT_COORDINATOR
    assert not kit.port.batches


def test_a_failing_append_may_cause_a_resignation() -> None:
    """The disk fails, and with it the leadership: the journal learns of both at once."""
    kit = Kit()
    waiting = kit.put()

    def append(*_: object) -> int:
        kit.journal.resign(ErrorCode.NOT_COORDINATOR)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    kit.port.append = append  # type: ignore[method-assign,assignment]
    refused = kit.put(b"b", on_refusal="sorry")
    assert code_of(waiting) == code_of(refused) == ErrorCode.NOT_COORDINATOR
    assert kit.toy.numbers == {b"a": b"1"}


def test_pending_writes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "WAITING_MAX", 2)
    kit = Kit()
    waiting = [kit.put(), kit.put()]
    assert code_of(kit.put(b"b")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(kit.port.batches) == 2
    kit.commit()
    assert [code_of(future) for future in waiting] == [None, None]


def test_records_of_a_transaction_count_when_its_marker_comes() -> None:
    kit = Kit()
    kit.put(producer=Producer(7, 0))
    kit.commit()
    assert kit.get().response is None
    kit.port.end += 1
    run_at_once(kit.journal.marker_appended(7, 0, True, kit.port.end))
    read = kit.get()
    assert not read.is_complete, "the marker is not committed"
    kit.commit()
    assert read.response == b"1"


def test_a_future_is_completed_once() -> None:
    reported: list[object] = []
    future = ReplyFuture()
    future.on_complete = lambda completed: reported.append(completed.response)
    future.complete(1)
    future.complete(ApiError(ErrorCode.NOT_COORDINATOR))
    assert reported == [1]
    assert future.failure is None


class Anything(RuleBasedStateMachine):
    """Requests, deadlines, failing appends, late commits, and another leader at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.port = ToyPort()
        self.events: list[tuple[str, Any]] = []
        """What the log holds, in order: ("records", (...)) and ("marker", (...))."""
        self.futures: list[ReplyFuture] = []

    @initialize()
    def lead(self) -> None:
        """Restart from what is committed."""
        self.toy = replayed(self.events)
        self.port.high_watermark = self.port.end
        self.journal = Journal(
            self.toy, self.port, applied_end=self.port.end, commit_timeout_ms=TIMEOUT_MS
        )

    def ask(self, decide: Any) -> None:
        future = ReplyFuture()
        self.futures.append(future)
        before = len(self.port.batches)
        run_at_once(self.journal.execute_in_steps(decide(future), self.now))
        self.note(before)
        needed = self.journal.applied_end
        if future.is_complete:
            refused = future.failure is not None or future.response == "sorry"
            assert refused or self.port.high_watermark >= needed

        def reported(completed: ReplyFuture) -> None:
            refused = completed.failure is not None or completed.response == "sorry"
            assert refused or self.port.high_watermark >= needed

        future.on_complete = reported

    def note(self, before: int) -> None:
        self.events += [("records", batch) for batch in self.port.batches[before:]]

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes | None) -> None:
        self.ask(lambda future: self.toy.put(future, key, value))

    @rule(key=KEYS, value=VALUES, command=st.integers())
    def put_with_command(self, key: bytes, value: bytes | None, command: int) -> None:
        self.ask(
            lambda future: self.toy.put(future, key, value, command=command, on_refusal="sorry")
        )

    @rule(key=KEYS, value=VALUES, producer=st.integers(0, 1))
    def put_in_transaction(self, key: bytes, value: bytes | None, producer: int) -> None:
        self.ask(lambda future: self.toy.put(future, key, value, producer=Producer(producer, 0)))

    @rule(producer=st.integers(0, 1), committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.port.end += 1
        self.events.append(("marker", (producer, committed)))
        run_at_once(self.journal.marker_appended(producer, 0, committed, self.port.end))

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        self.ask(lambda future: self.toy.get(future, key))

    @rule(key=KEYS, after=st.integers(0, 2 * TIMEOUT_MS))
    def park(self, key: bytes, after: int) -> None:
        self.ask(lambda future: self.toy.park(future, key, self.now + after))

    @rule(code=CODES)
    def the_next_append_fails(self, code: ErrorCode) -> None:
        self.port.failures.append(code)

    @rule(by=st.integers(0, 2 * TIMEOUT_MS))
    def time_passes(self, by: int) -> None:
        self.now += by
        before = len(self.port.batches)
        while run_at_once(self.journal.tick_in_steps(self.now)):
            pass
        self.note(before)
        wake_at = self.journal.wake_at()
        assert wake_at is None or wake_at > self.now

    @rule(upto=st.floats(0, 1))
    def some_is_committed(self, upto: float) -> None:
        watermark = self.port.high_watermark
        self.port.high_watermark = watermark + int((self.port.end - watermark) * upto)
        self.journal.release_replies()

    @rule()
    def all_is_committed(self) -> None:
        self.port.high_watermark = self.port.end
        self.journal.release_replies()
        parked = list(map(id, self.toy.parked.values()))
        assert all(future.is_complete or id(future) in parked for future in self.futures)

    @rule()
    def another_leads_for_a_while(self) -> None:
        self.journal.resign(ErrorCode.NOT_COORDINATOR)
        assert all(future.is_complete for future in self.futures)
        self.futures.clear()
        self.port.failures.clear()
        self.lead()

    @invariant()
    def replay_leads_to_the_same(self) -> None:
        replayed_toy = replayed(self.events)
        assert (replayed_toy.numbers, replayed_toy.pending) == (self.toy.numbers, self.toy.pending)


def replayed(events: list[tuple[str, Any]]) -> Toy:
    toy = Toy()
    for kind, content in events:
        if kind == "marker":
            run_at_once(toy.apply_marker(content[0], 0, content[1]))
            continue
        records, producer = content
        for record in records:
            toy.apply(record, producer)
    return toy


TestAnything = Anything.TestCase


def test_the_toy_machine_returns_decisions() -> None:
    """The defaults: nothing to write, no replies."""
    kit = Kit()
    run_at_once(kit.journal.execute_in_steps(Decision(), 0))
    run_at_once(
        kit.journal.execute_in_steps(
            Decision([JournalRecord(b"a", b"2")], [Reply(ReplyFuture(), None)]), 0
        )
    )
    assert kit.toy.numbers == {b"a": b"2"}


# -- what takes long ---------------------------------------------------------------------------


def test_many_records_are_applied_in_steps_before_the_reply() -> None:
    kit = Kit()
    future = ReplyFuture()
    work = kit.journal.execute_in_steps(kit.toy.put_many(future, 1000, b"1"), 0)
    seen = []
    for _ in work:
        seen.append(len(kit.toy.numbers))
        assert not future.is_complete
        kit.port.high_watermark = kit.port.end
        kit.journal.release_replies()
    assert len(kit.port.batches) == 1, "all of them or none"
    assert seen == sorted(seen)
    assert any(0 < count < 1000 for count in seen)
    assert len(kit.toy.numbers) == 1000
    assert future.is_complete


def test_a_marker_is_applied_after_the_records_being_applied() -> None:
    kit = Kit()
    producer = Producer(7, 0)
    run_at_once(
        kit.journal.execute_in_steps(
            kit.toy.put(ReplyFuture(), b"0", b"of 7", producer=producer), 0
        )
    )
    work = kit.journal.execute_in_steps(kit.toy.put_many(ReplyFuture(), 1000, b"1"), 0)
    while kit.toy.numbers.get(b"0") is None:
        next(work)
    kit.port.end += 1
    run_at_once(kit.journal.marker_appended(7, 0, True, kit.port.end))
    assert kit.toy.numbers[b"0"] == b"1"
    for _ in work:
        assert kit.toy.numbers[b"0"] == b"1"
    assert kit.toy.numbers[b"0"] == b"of 7"
    assert kit.journal.applied_end == kit.port.end


def test_markers_of_much_are_applied_with_pauses_in_their_order() -> None:
    kit = Kit()
    for number in range(3):
        kit.put(b"%d" % number, producer=Producer(7, 0))
    kit.put(b"0", b"of 8", producer=Producer(8, 0))
    kit.port.end += 2
    first = kit.journal.marker_appended(7, 0, True, kit.port.end - 1)
    next(first)
    assert kit.toy.numbers == {b"0": b"1"}, "it has begun"
    second = kit.journal.marker_appended(8, 0, True, kit.port.end)
    run_at_once(second)
    assert kit.toy.numbers == {b"0": b"1"}, "one after the other"
    run_at_once(first)
    assert kit.toy.numbers == {b"0": b"of 8", b"1": b"1", b"2": b"1"}
    assert kit.journal.applied_end == kit.port.end


def test_resigning_while_records_are_applied_fails_the_replies() -> None:
    kit = Kit()
    future = ReplyFuture()
    work = kit.journal.execute_in_steps(kit.toy.put_many(future, 1000, b"1"), 0)
    next(work)
    kit.journal.resign(ErrorCode.NOT_COORDINATOR)
    run_at_once(work)
    assert future.failure is not None
    assert future.failure.code is ErrorCode.NOT_COORDINATOR


def test_a_request_parked_after_the_resignation_fails() -> None:
    kit = Kit()
    future = ReplyFuture()

    def park() -> Steps[Decision]:
        yield None
        return kit.toy.park(future, b"a", 10)

    work = kit.journal.execute_in_steps(park(), 0)
    next(work)
    kit.journal.resign(ErrorCode.NOT_COORDINATOR)
    run_at_once(work)
    assert future.failure is not None
    assert future.failure.code is ErrorCode.NOT_COORDINATOR
