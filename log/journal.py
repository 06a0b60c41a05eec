"""Replicated state machines: the journal between a coordinator's state machine and its partition.

This is the equivalent of Apache Kafka's CoordinatorRuntime. Pure, without I/O of its own.

For a request the machine decides on records and replies. The journal appends the records; if that
fails the state is unchanged. Then the machine applies them, which is the only way its state
changes, live as well as in replay. The replies are held back until the records are committed. A
reply without records waits until all records applied before are committed, so that no client sees
state that a fail-over could revert.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from kavka.log.timers import Timers
from kavka.log.txn_guards import Guard
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_PER_STEP, Steps, run_at_once

WAITING_MAX: Final = 100_000
"""Decisions whose replies wait for the high watermark; further ones are rejected with
COORDINATOR_NOT_AVAILABLE before anything is appended."""

BYTES_PER_STEP: Final = 16 * 1024
"""Bytes of record values that are applied in one step."""

FAILED_DEADLINE_RETRY_MS: Final = 10_000
"""The least time until an expired deadline is handled again, after an exception."""

CLIENT_ERRORS: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error for clients by the error of the append, as Apache Kafka's coordinators translate it:
an error of the partition means something else for its coordinator."""


class ApplyFailed(Exception):
    """The machine failed to apply records that are in the log: they are missing in its state."""


class JournalRecord(NamedTuple):
    """Key and value as they are on disk; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """The producer whose transaction records belong to."""

    id: int
    epoch: int
    guard: Guard | None = None
    """Verifies the first batch of a transaction (KIP-890); None in replay."""


class ReplyFuture:
    """The pending reply to one request, completed by `complete`.

    A machine keeps it while the reply is not known, and never reads it.
    """

    __slots__ = ("failure", "is_complete", "on_complete", "response")

    def __init__(self) -> None:
        self.is_complete = False
        self.response: Any = None
        self.failure: ApiError | None = None
        self.on_complete: Callable[[ReplyFuture], object] | None = None
        """Called when it is complete; set by the code that waits."""

    def complete(self, response: Any) -> None:
        """Set the reply; an ApiError is a failure. Does nothing if it is complete already."""
        if self.is_complete:
            return
        self.is_complete = True
        if isinstance(response, ApiError):
            self.failure = response
        else:
            self.response = response
        if self.on_complete is not None:
            self.on_complete(self)


class Reply(NamedTuple):
    """A reply, to be sent when everything applied before is committed."""

    future: ReplyFuture
    response: Any


@dataclass(slots=True)
class Decision:
    """The result of a request, an expired deadline or another event."""

    records: Sequence[JournalRecord] = ()
    replies: list[Reply] = field(default_factory=list)
    commands: list[Hashable] = field(default_factory=list)
    """Commands for the runner, to be carried out when the records are committed."""

    on_failure: Callable[[ErrorCode, int], Decision] | None = None
    """Called when the records can't be appended, or are not committed in time (then they stay in
    the log and in the state), with the error for clients and the time in ms. The decision that it
    returns replaces this one; if that has no records its replies are sent at once. None: all
    `replies` get the error."""

    producer: Producer | None = None
    """The producer whose transaction the records belong to."""


DecisionOrSteps: TypeAlias = Decision | Steps[Decision]
"""A decision; or a generator that computes one in steps, yielding to the event loop in between. A
rule that always decides at once is a plain function, for it would have nothing to yield.

Until the decision is carried out no other request reaches the machine. Only transaction markers
may change it between two steps; they are in the log before the records of the decision. The result
must be as if the decision had been computed at once after the marker. So a generator must not
iterate, across a step, over anything that `apply_marker` changes, and may remember of such state
only that an entry exists, which markers never add."""


class Machine(Protocol):
    """A state machine whose records are in a partition."""

    timers: Timers

    def apply(self, record: JournalRecord, producer: Producer | None) -> None:
        """Apply a record to the state. Records of a transaction take effect with its marker.
        Must accept any record of the log, and must not raise."""
        ...

    def apply_all(self, records: Sequence[JournalRecord], producer: Producer | None) -> None:
        """`apply` for the records of one decision, in order; they are the same objects."""
        ...

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """`apply` for many non-transactional records, in log order, for loading. Idempotent."""
        ...

    def loaded(self, now_ms: int) -> Iterable[Decision]:
        """The log has been replayed completely: set deadlines, and decide on further actions."""
        ...

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Steps[None]:
        """A transaction was committed or aborted; in steps if it has many records. It may come
        between two steps that compute a decision (see `DecisionOrSteps`). In the log it is before
        or after all records of a decision, never between them."""
        ...

    def expire(self, key: Hashable, now_ms: int) -> DecisionOrSteps:
        """Decide what to do when the deadline `key` has expired."""
        ...

    def resign(self) -> Sequence[ReplyFuture]:
        """The requests without a reply; the machine is not used any more."""
        ...


class Port(Protocol):
    """The partition, as its leader."""

    @property
    def high_watermark(self) -> int: ...

    def append(
        self, records: Sequence[JournalRecord], producer: Producer | None, now_ms: int
    ) -> Steps[int]:
        """Append one batch; the new end offset. ApiError: nothing was appended."""
        ...


class _Waiting(NamedTuple):
    end: int
    deadline_ms: int
    """Without the shifts of the clock (`Timers.clock_shifted`)."""

    decision: Decision


class Journal:
    """One machine and its partition, while this broker leads it and has replayed it."""

    def __init__(
        self, machine: Machine, port: Port, *, applied_end: int, commit_timeout_ms: int
    ) -> None:
        """`machine` has applied all records before the offset `applied_end`."""
        self.machine: Final = machine
        self.commit_timeout_ms: Final = commit_timeout_ms
        self.applied_end = applied_end
        """The end offset of the applied records."""
        self.commands: Final[deque[Hashable]] = deque()
        """To be carried out by the runner, in order."""
        self._port: Final = port
        self._waiting: Final[deque[_Waiting]] = deque()
        self._is_applying = False
        self._markers: Final[deque[tuple[int, int, bool, int]]] = deque()
        """Markers to be applied; at most one for each producer."""
        self._resigned: ErrorCode | None = None

    @property
    def is_fully_committed(self) -> bool:
        """Whether all applied records are committed, so that reads can be answered at once."""
        return self._port.high_watermark >= self.applied_end

    @property
    def is_waited_for(self) -> bool:
        """Whether there are replies that wait for the high watermark."""
        return bool(self._waiting)

    def execute_in_steps(self, work: DecisionOrSteps, now_ms: int) -> Steps[None]:
        """Append, apply, and reply when committed; without a pause if there is little to do. Until
        it is done no other decision may be carried out, and no request may reach the machine."""
        decision = work if isinstance(work, Decision) else (yield from work)
        if decision.records and self._resigned is None:
            try:
                yield from self._append(decision, now_ms)
            except ApiError as failure:
                yield from self._refuse(decision, failure.code, now_ms)
                return
        if self._is_committed(decision, now_ms):
            yield from self._complete_replies(decision)

    def _append(self, decision: Decision, now_ms: int) -> Steps[None]:
        if len(self._waiting) >= WAITING_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many writes are waiting")
        records, producer = decision.records, decision.producer
        self.applied_end = yield from self._port.append(records, producer, now_ms)
        pauses = not _is_little(records)
        failure: Exception | None = None
        self._is_applying = True
        try:
            for some in _parts(records) if pauses else (records,):
                if pauses:
                    yield None
                try:
                    self.machine.apply_all(some, producer)
                except Exception as raised:  # the other parts are in the log too
                    failure = failure or raised
            if pauses:
                yield None
        finally:
            self._is_applying = False
        if self._markers:
            yield from self._apply_markers()
        if failure is not None:
            _fail(decision, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise ApplyFailed("applying appended records failed") from failure

    def _is_committed(self, decision: Decision, now_ms: int) -> bool:
        """Whether all applied records are committed, so that the replies are due now. Otherwise
        the decision waits for that, or has failed because of a resignation."""
        if self._resigned is not None:
            _fail(decision, self._resigned)
            self._dismiss(self._resigned)
            return False
        # Replies of earlier decisions that are due come first.
        if self._port.high_watermark < self.applied_end or self._waiting and self.release_replies():
            deadline_ms = now_ms + self.commit_timeout_ms - self.machine.timers.clock_shift_ms
            self._waiting.append(_Waiting(self.applied_end, deadline_ms, decision))
            return False
        return True

    def marker_appended(
        self, producer_id: int, producer_epoch: int, committed: bool, end: int
    ) -> Steps[None]:
        """Steps that apply a marker, which has been appended to the partition; the end offset is
        `end`. They have to run before the next request reaches the machine."""
        self._markers.append((producer_id, producer_epoch, committed, end))
        return self._apply_markers()

    def _apply_markers(self) -> Steps[None]:
        if self._is_applying:  # the records before them in the log come first
            return
        failure: Exception | None = None
        self._is_applying = True
        try:
            while self._markers:
                producer_id, epoch, committed, self.applied_end = self._markers.popleft()
                try:
                    yield from self.machine.apply_marker(producer_id, epoch, committed)
                except Exception as raised:  # the markers of other transactions must be applied too
                    failure = failure or raised
        finally:
            self._is_applying = False
        if failure is not None:
            raise ApplyFailed("applying a transaction marker failed") from failure

    def release_replies(self) -> bool:
        """The high watermark has advanced: send the replies that waited for it, in order, at most
        `ITEMS_PER_STEP`; whether there are more."""
        high_watermark = self._port.high_watermark
        waiting = self._waiting
        room = ITEMS_PER_STEP
        while waiting and waiting[0].end <= high_watermark:
            if room <= 0:
                return True
            decision = waiting[0].decision
            if len(decision.replies) > room:
                for future, response in decision.replies[:room]:
                    future.complete(response)
                del decision.replies[:room]
                return True
            room -= max(1, len(decision.replies))
            run_at_once(self._complete_replies(waiting.popleft().decision))
        return False

    @property
    def has_due_replies(self) -> bool:
        """Whether there are replies that wait only for another call of `release_replies`."""
        return bool(self._waiting) and self._waiting[0].end <= self._port.high_watermark

    def _complete_replies(self, decision: Decision) -> Steps[None]:
        for number, (future, response) in enumerate(decision.replies, 1):
            future.complete(response)
            if number % ITEMS_PER_STEP == 0:
                yield None
        if decision.commands:
            self.commands.extend(decision.commands)

    def wake_at(self) -> int | None:
        """When to call `tick_in_steps` next, in ms; None if there is nothing to wait for."""
        timer = self.machine.timers.wake_at()
        if not self._waiting or self.has_due_replies:
            return timer
        deadline_ms = self._waiting[0].deadline_ms + self.machine.timers.clock_shift_ms
        return deadline_ms if timer is None else min(timer, deadline_ms)

    def tick_in_steps(self, now_ms: int) -> Steps[bool]:
        """Handle one expired deadline, as `execute_in_steps` does; whether there was one."""
        if self._resigned is not None:
            return False
        unshifted_ms = now_ms - self.machine.timers.clock_shift_ms
        if (
            self._waiting
            and self._waiting[0].deadline_ms <= unshifted_ms
            and not self.has_due_replies
        ):
            late = self._waiting.popleft().decision
            yield from self._refuse(late, ErrorCode.REQUEST_TIMED_OUT, now_ms)
            return True
        key = self.machine.timers.due(now_ms)
        if key is None:
            return False
        try:
            yield from self.execute_in_steps(self.machine.expire(key, now_ms), now_ms)
        except Exception:  # it must be retried, but not in every iteration of the loop
            timers = self.machine.timers
            timers.set(key, max(timers.at(key) or 0, now_ms + FAILED_DEADLINE_RETRY_MS))
            raise
        return True

    def _refuse(self, decision: Decision, code: ErrorCode, now_ms: int) -> Steps[None]:
        error = CLIENT_ERRORS.get(code, code)
        if decision.on_failure is None or self._resigned is not None:
            _fail(decision, error)
            return
        try:
            instead = decision.on_failure(error, now_ms)
        except Exception:  # the clients must get a reply all the same
            _fail(decision, error)
            raise
        if instead.records:
            yield from self.execute_in_steps(instead, now_ms)
        else:  # it does not depend on uncommitted state
            yield from self._complete_replies(instead)

    def resign(self, code: ErrorCode) -> None:
        """This broker is no longer the leader: all pending replies fail with `code`."""
        if self._resigned is not None:
            return
        self._resigned = code
        while self._waiting:
            _fail(self._waiting.popleft().decision, code)
        self._dismiss(code)

    def _dismiss(self, code: ErrorCode) -> None:
        """Fail the requests that wait in the machine. There may be one even after resigning, if
        its decision was being computed."""
        for future in self.machine.resign():
            future.complete(ApiError(code))


def _is_little(records: Sequence[JournalRecord]) -> bool:
    """Whether these records can be applied in one step."""
    if len(records) > ITEMS_PER_STEP:
        return False
    room = BYTES_PER_STEP
    for record in records:
        room -= len(record.value or b"")
    return room >= 0


def _parts(records: Sequence[JournalRecord]) -> Sequence[Sequence[JournalRecord]]:
    """The records to apply in one step each: a few records, or a single big one."""
    parts, start, size = [], 0, 0
    for end, record in enumerate(records):
        more = len(record.value or b"")
        if end > start and (size + more > BYTES_PER_STEP or end - start == ITEMS_PER_STEP):
            parts.append(records[start:end])
            start, size = end, 0
        size += more
    return [*parts, records[start:]]


def _fail(decision: Decision, code: ErrorCode) -> None:
    for future, _ in decision.replies:
        future.complete(ApiError(code))
