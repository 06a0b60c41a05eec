"""A state machine whose state lives in the records of a partition: the journal between both. Pure.

A machine decides what a request leads to: records, and answers. The journal appends the records;
if that fails nothing has happened. Then it has the machine apply them, which is the only way its
state changes, live and in replay alike, and keeps the answers back until the records are
committed. An answer without records waits for all that was applied before it, so nobody sees what
a fail-over could take back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from kavka.log.timers import Timers
from kavka.log.txn_guards import Guard
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, Slices, each, run_to_completion

WAITING_MAX: Final = 100_000
"""Decisions whose answers wait for the high watermark; further ones are refused with
COORDINATOR_NOT_AVAILABLE before anything is appended."""

BYTES_A_STEP: Final = 16 * 1024
"""Of values that are applied in one go."""

FAILED_DEADLINE_RETRY_MS: Final = 10_000
"""The least time from one attempt to handle a deadline to the next, if it fails with an
exception."""

TOLD: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client is told when records can't be written: what is true of the partition says
something else of a coordinator. As Apache Kafka's coordinators translate it."""


class ApplyFailed(Exception):
    """The machine raised where it must not: records are in the log that its state lacks."""


class Record(NamedTuple):
    """Key and value as they are on disk; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """Whose transaction records belong to."""

    id: int
    epoch: int
    guard: Guard | None = None
    """What lets the first batch of a transaction in (KIP-890); only live."""


class Ticket:
    """Where the answer to one request goes.

    A machine keeps it as long as the answer is not known, and looks into it never.
    """

    __slots__ = ("answer", "failure", "settled", "wake")

    def __init__(self) -> None:
        self.settled = False
        self.answer: Any = None
        self.failure: ApiError | None = None
        self.wake: Callable[[Ticket], object] | None = None
        """Called once it is settled, by whoever waits."""

    def settle(self, answer: Any) -> None:
        """The answer; an ApiError is a failure. A ticket that is settled stays as it is."""
        if self.settled:
            return
        self.settled = True
        if isinstance(answer, ApiError):
            self.failure = answer
        else:
            self.answer = answer
        if self.wake is not None:
            self.wake(self)


class Reply(NamedTuple):
    """An answer, to be given when all that it rests on is committed."""

    ticket: Ticket
    answer: Any


@dataclass(slots=True)
class Decision:
    """What a request, a timer or a change elsewhere leads to."""

    records: Sequence[Record] = ()
    replies: list[Reply] = field(default_factory=list)
    after: list[Hashable] = field(default_factory=list)
    """Commands for whoever runs the machine, to be carried out once the records are committed."""

    refused: Callable[[ErrorCode, int], Decision] | None = None
    """What it leads to instead when the records can't be appended, or are not committed in time;
    then they stay in the log and in the state. It is given the code for clients, and the time in
    ms; without records of its own it is answered at once. None: the code is the answer to all
    `replies`."""

    producer: Producer | None = None
    """The transaction that the records belong to."""


Made: TypeAlias = Decision | Slices[Decision]
"""A decision; or what makes one, and takes long: it pauses where others may have the loop. Until
it is carried out nothing else is asked of the machine, and nothing changes it but the marker of a
transaction, which is in the log by then, before the records of the decision. So that it is as if
the decision had been made in one go after the marker, what makes it iterates over nothing across a
pause that `apply_marker` changes, and keeps of it no more than that a place is there, which no
marker brings."""


class Machine(Protocol):
    """What is journalled."""

    timers: Timers

    def apply(self, record: Record, producer: Producer | None) -> None:
        """Change the state as a record says. Records of a transaction count when its marker
        comes. Must cope with whatever is in the log, and raise nothing."""
        ...

    def apply_all(self, records: Sequence[Record], producer: Producer | None) -> None:
        """`apply` of each of the records of one decision, in order; they are the same objects."""
        ...

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """`apply` of many records without a transaction, in the order of the log: for loading.
        To repeat it changes nothing."""
        ...

    def loaded(self, now_ms: int) -> Iterable[Decision]:
        """All of the log has been replayed: set deadlines, and what else there is to do."""
        ...

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Slices[None]:
        """A transaction has ended, and its records count, or don't; with pauses if they are
        many. It may come between two steps of a decision that pauses (see `Made`), before or after
        any record of which it is in the log, but never between two of one decision."""
        ...

    def expire(self, key: Hashable, now_ms: int) -> Made:
        """What the passing of a deadline leads to."""
        ...

    def resign(self) -> Sequence[Ticket]:
        """The requests that are still without an answer; the machine is dropped."""
        ...


class Port(Protocol):
    """The partition, as its leader."""

    @property
    def high_watermark(self) -> int: ...

    def append(
        self, records: Sequence[Record], producer: Producer | None, now_ms: int
    ) -> Slices[int]:
        """Append one batch; where it ends. ApiError when it is refused: nothing was appended."""
        ...


class _Waiting(NamedTuple):
    end: int
    deadline_ms: int
    """As if the clock had never been set."""

    decision: Decision


class Journal:
    """One machine and its partition, while this broker leads it and has replayed it."""

    def __init__(
        self, machine: Machine, port: Port, *, applied_end: int, commit_timeout_ms: int
    ) -> None:
        """`machine` has had all records before the offset `applied_end`."""
        self.machine: Final = machine
        self.commit_timeout_ms: Final = commit_timeout_ms
        self.applied_end = applied_end
        """The end of the records that the state consists of."""
        self.commands: Final[deque[Hashable]] = deque()
        """To be carried out by whoever runs this, in order."""
        self._port: Final = port
        self._waiting: Final[deque[_Waiting]] = deque()
        self._is_applying = False
        self._markers: Final[deque[tuple[int, int, bool, int]]] = deque()
        """Those that are to be applied: not more than there are producers."""
        self._resigned: ErrorCode | None = None

    @property
    def is_settled(self) -> bool:
        """Whether all that was applied is committed: what is read now may be told at once."""
        return self._port.high_watermark >= self.applied_end

    @property
    def is_waited_for(self) -> bool:
        """Whether there are answers that wait for the high watermark."""
        return bool(self._waiting)

    def carry_out(self, made: Made, now_ms: int) -> None:
        """Append, apply, and answer when it is committed."""
        run_to_completion(self.carry_out_slowly(made, now_ms))

    def carry_out_slowly(self, made: Made, now_ms: int) -> Slices[None]:
        """The same, with pauses if there is much to do; until it is done nothing else may be
        carried out, or be asked of the machine."""
        decision = made if isinstance(made, Decision) else (yield from made)
        if self.carry_out_at_once(decision, now_ms):
            return
        if self._resigned is None and decision.records:
            try:
                yield from self._append(decision, now_ms)
            except ApiError as failure:
                yield from self._refuse(decision, failure.code, now_ms)
                return
        if self._is_committed(decision, now_ms):
            yield from self._release(decision)

    def carry_out_at_once(self, decision: Decision, now_ms: int) -> bool:
        """The same if there is little to do, as nearly always; whether there was. Else nothing has
        been done."""
        if not _is_little(decision):
            return False
        if decision.records and self._resigned is None:
            try:
                self._append_at_once(decision, now_ms)
            except ApiError as failure:
                run_to_completion(self._refuse(decision, failure.code, now_ms))
                return True
        if self._is_committed(decision, now_ms):
            self._give(decision)
        return True

    def _append_at_once(self, decision: Decision, now_ms: int) -> None:
        self._admit()
        records, producer = decision.records, decision.producer
        self.applied_end = run_to_completion(self._port.append(records, producer, now_ms))
        try:
            self.machine.apply_all(records, producer)
        except Exception as failure:
            raise _apply_failed(decision) from failure

    def _append(self, decision: Decision, now_ms: int) -> Slices[None]:
        self._admit()
        records, producer = decision.records, decision.producer
        self.applied_end = yield from self._port.append(records, producer, now_ms)
        failure: Exception | None = None
        self._is_applying = True
        try:
            for some in _parts(records):
                yield
                try:
                    self.machine.apply_all(some, producer)
                except Exception as raised:  # the other parts are in the log just as well
                    failure = failure or raised
            yield
        finally:
            self._is_applying = False
        yield from self._apply_markers()
        if failure is not None:
            raise _apply_failed(decision) from failure

    def _admit(self) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many writes wait")

    def _is_committed(self, decision: Decision, now_ms: int) -> bool:
        """Whether all that was applied is, so that the answers are to be given now: otherwise they
        wait for that, or are known already."""
        if self._resigned is not None:
            _fail(decision, self._resigned)
            self._dismiss(self._resigned)
            return False
        # Where there are many answers to give, those of earlier decisions come first.
        if self._port.high_watermark < self.applied_end or self._waiting and self.committed():
            deadline_ms = now_ms + self.commit_timeout_ms - self.machine.timers.set_by_ms
            self._waiting.append(_Waiting(self.applied_end, deadline_ms, decision))
            return False
        return True

    def marked(
        self, producer_id: int, producer_epoch: int, committed: bool, end: int
    ) -> Slices[None]:
        """The marker of a transaction has been appended to the partition, which ends at `end`. What
        that changes is to be done before anything else is asked of the machine."""
        self._markers.append((producer_id, producer_epoch, committed, end))
        return self._apply_markers()

    def _apply_markers(self) -> Slices[None]:
        if self._is_applying:  # what stands in front of them in the log comes first
            return
        failure: Exception | None = None
        self._is_applying = True
        try:
            while self._markers:
                producer_id, epoch, committed, self.applied_end = self._markers.popleft()
                try:
                    yield from self.machine.apply_marker(producer_id, epoch, committed)
                except Exception as raised:  # of one transaction: the others have ended too
                    failure = failure or raised
        finally:
            self._is_applying = False
        if failure is not None:
            raise ApplyFailed("a marker could not be applied") from failure

    def committed(self) -> bool:
        """The high watermark has moved: give the answers that waited for it, in order, but no more
        than `ITEMS_A_STEP`. Whether there are more to give."""
        high_watermark = self._port.high_watermark
        waiting = self._waiting
        room = ITEMS_A_STEP
        while waiting and waiting[0].end <= high_watermark:
            if room <= 0:
                return True
            decision = waiting[0].decision
            if len(decision.replies) > room:
                for ticket, answer in decision.replies[:room]:
                    ticket.settle(answer)
                del decision.replies[:room]
                return True
            room -= max(1, len(decision.replies))
            self._give(waiting.popleft().decision)
        return False

    @property
    def owes(self) -> bool:
        """Whether there are answers that wait for nothing but another call of `committed`."""
        return bool(self._waiting) and self._waiting[0].end <= self._port.high_watermark

    def _give(self, decision: Decision) -> None:
        for ticket, answer in decision.replies:
            ticket.settle(answer)
        if decision.after:
            self.commands.extend(decision.after)

    def _release(self, decision: Decision) -> Slices[None]:
        """The same, with pauses if there are many."""
        yield from each(decision.replies, lambda one: one.ticket.settle(one.answer))
        if decision.after:
            self.commands.extend(decision.after)

    def wake_at(self) -> int | None:
        """When to call `tick` next, ms; None if there is no need."""
        timer = self.machine.timers.wake_at()
        if not self._waiting or self.owes:
            return timer
        deadline_ms = self._waiting[0].deadline_ms + self.machine.timers.set_by_ms
        return deadline_ms if timer is None else min(timer, deadline_ms)

    def tick(self, now_ms: int) -> bool:
        """Do one thing that is due; whether there was one."""
        return run_to_completion(self.tick_slowly(now_ms))

    def tick_slowly(self, now_ms: int) -> Slices[bool]:
        """The same, as `carry_out_slowly`."""
        if self._resigned is not None:
            return False
        as_unset_ms = now_ms - self.machine.timers.set_by_ms
        if self._waiting and self._waiting[0].deadline_ms <= as_unset_ms and not self.owes:
            late = self._waiting.popleft().decision
            yield from self._refuse(late, ErrorCode.REQUEST_TIMED_OUT, now_ms)
            return True
        key = self.machine.timers.due(now_ms)
        if key is None:
            return False
        try:
            yield from self.carry_out_slowly(self.machine.expire(key, now_ms), now_ms)
        except Exception:  # what it is for must still be done, but not in every turn of the loop
            timers = self.machine.timers
            timers.set(key, max(timers.at(key) or 0, now_ms + FAILED_DEADLINE_RETRY_MS))
            raise
        return True

    def _refuse(self, decision: Decision, code: ErrorCode, now_ms: int) -> Slices[None]:
        told = TOLD.get(code, code)
        if decision.refused is None or self._resigned is not None:
            _fail(decision, told)
            return
        try:
            instead = decision.refused(told, now_ms)
        except Exception:  # nobody whom the decision answers waits in vain
            _fail(decision, told)
            raise
        if instead.records:
            yield from self.carry_out_slowly(instead, now_ms)
        else:  # it tells nothing of the state, so it rests on nothing
            yield from self._release(instead)

    def resign(self, code: ErrorCode) -> None:
        """This broker leads the partition no longer: nobody gets an answer but `code`."""
        if self._resigned is not None:
            return
        self._resigned = code
        while self._waiting:
            _fail(self._waiting.popleft().decision, code)
        self._dismiss(code)

    def _dismiss(self, code: ErrorCode) -> None:
        """Whoever waits in the machine; somebody may come to wait there even after this broker has
        resigned, if what was asked had been begun."""
        for ticket in self.machine.resign():
            ticket.settle(ApiError(code))


def _is_little(decision: Decision) -> bool:
    """Whether its records are one part."""
    records = decision.records
    if len(records) > ITEMS_A_STEP or len(decision.replies) > ITEMS_A_STEP:
        return False
    room = BYTES_A_STEP
    for record in records:
        room -= len(record.value or b"")
    return room >= 0


def _parts(records: Sequence[Record]) -> Sequence[Sequence[Record]]:
    """What is applied in one go each: a few records, or one that is big."""
    parts, start, size = [], 0, 0
    for end, record in enumerate(records):
        more = len(record.value or b"")
        if end > start and (size + more > BYTES_A_STEP or end - start == ITEMS_A_STEP):
            parts.append(records[start:end])
            start, size = end, 0
        size += more
    return [*parts, records[start:]]


def _apply_failed(decision: Decision) -> ApplyFailed:
    """To be raised; nobody whom the decision answers waits in vain."""
    _fail(decision, ErrorCode.UNKNOWN_SERVER_ERROR)
    return ApplyFailed("records that have been appended could not be applied")


def _fail(decision: Decision, code: ErrorCode) -> None:
    for ticket, _ in decision.replies:
        ticket.settle(ApiError(code))
