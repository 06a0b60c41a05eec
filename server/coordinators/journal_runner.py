"""Drives a journal: the machine of one partition, from the hour that this broker leads it.

It replays the log into the machine (`journal_loader`), appends what the machine decides, tells the
journal when the high watermark moves, and keeps one timer for all deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kavka.log.errors import StorageError
from kavka.log.journal import Decision, Journal, Machine, Made, Reply, Ticket
from kavka.seams import Clock, Jobs, Tasks, Timer
from kavka.server.coordinators.journal_loader import (
    LOADS_AT_ONCE_MAX,
    Loaded,
    LoadTurns,
    Superseded,
    load,
)
from kavka.server.coordinators.journal_port import ReplicaPort
from kavka.server.coordinators.serial_queue import TICK_SLICE_S, SerialQueue
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.purgatory import Purgatory
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Slices, begun

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
T = TypeVar("T")

CLOCK_SET_MS: Final = 1000
"""By how much the time of the day and the monotonic clock must disagree for it to have been set.
Deadlines then move with it, as members' sessions must neither end nor last on for that; what is
written, and when offsets expire, goes by the time of the day."""

COMMANDS_A_TURN: Final = 100
"""Commands carried out before the loop gets a turn, at some 10 us each; there are more only where
a log is replayed that ends in the middle of very much."""

_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _nothing(what: object) -> None:
    """Nobody wants to know."""


class Settings(NamedTuple):
    """What a runner goes by."""

    commit_timeout_ms: int
    codec: Codec
    load_bytes: int
    """Bytes that are read at a time."""
    base_sequence: int
    """Of each batch. Nobody counts: Apache Kafka's coordinators have 0 or -1 all the time."""


class Parts(NamedTuple):
    """What a runner works with."""

    clock: Clock
    tasks: Tasks
    jobs: Jobs
    purgatory: Purgatory
    turns: LoadTurns
    replayed: Callable[[], object]
    """Called after each slice of a log that is replayed: there are more objects, which stay."""


def parts_of(replicas: ReplicaManager, replayed: Callable[[], object]) -> Parts:
    """Those of the runners of one broker."""
    turns = asyncio.Semaphore(LOADS_AT_ONCE_MAX)
    return Parts(replicas.clock, replicas.tasks, replicas.jobs, replicas.purgatory, turns, replayed)


class JournalRunner(Generic[M]):
    """One machine, for as long as this broker leads its partition in one epoch."""

    __slots__ = (
        "_ahead_ms",
        "_armed_ms",
        "_closed",
        "_gives_more",
        "_journal",
        "_on_loaded",
        "_parts",
        "_perform",
        "_port",
        "_settings",
        "_timer",
        "_turns",
        "_watch",
        "failed",
        "is_active",
        "loaded",
        "machine",
        "replica",
    )

    def __init__(
        self,
        replica: Replica,
        machine: M,
        settings: Settings,
        parts: Parts,
        *,
        on_loaded: Callable[[JournalRunner[M]], object] = _nothing,
        perform: Callable[[Hashable], object] = _nothing,
    ) -> None:
        """`perform` carries out the machine's commands."""
        self.replica: Final = replica
        self.machine: Final = machine
        self.is_active = False
        """Whether the log is replayed and requests are served."""
        self._journal: Journal | None = None
        self.loaded: Loaded | None = None
        """What that was."""
        self.failed = False
        """Whether it could not be."""
        self._settings = settings
        self._parts = parts
        self._perform = perform
        self._on_loaded = on_loaded
        self._port = ReplicaPort(replica, settings.codec, settings.base_sequence)
        self._timer: Timer | None = None
        self._armed_ms = 0
        self._ahead_ms = 0
        self._watch: asyncio.Future[Any] | None = None
        self._closed = False
        self._gives_more = False
        name = "long work of {}-{}".format(*replica.key)
        self._turns: Final = SerialQueue(parts.tasks, parts.clock, name)

    @property
    def leader_epoch(self) -> int:
        """The epoch of leadership that this is for."""
        return self._port.leader_epoch

    @property
    def leads(self) -> bool:
        """Whether it is still that epoch."""
        return self._port.leads

    # -- from loading to the end ----------------------------------------------------------

    def begin(self) -> None:
        """Replay the log, so that requests are served; of an empty one at once."""
        log = self.replica.log
        if log.start_offset < log.end_offset:
            name = "replay of {}-{}".format(*self.replica.key)
            self._parts.tasks.spawn(self._load(), name=name)
            return
        now_ms = self._parts.clock.now_ms()
        try:
            journal = self._journal_from(log.end_offset)
            for decision in self.machine.loaded(now_ms):
                journal.carry_out(decision, now_ms)
        except Exception as failure:
            self._fail(failure)
        else:
            self._activate(journal, Loaded(log.end_offset, 0, 0, now_ms, 0, 0))

    async def _load(self) -> None:
        parts = self._parts
        try:
            loaded = await load(
                self.replica,
                self.machine,
                bytes_max=self._settings.load_bytes,
                goes_on=lambda: not self._closed and self.leads,
                tasks=parts.tasks,
                jobs=parts.jobs,
                clock=parts.clock,
                turns=parts.turns,
                replayed=parts.replayed,
            )
            journal = self._journal_from(loaded.end)
            decisions = iter(self.machine.loaded(parts.clock.now_ms()))
            await self._carry_out_all(journal, decisions)
            parts.replayed()
        except Superseded:
            return
        except Exception as failure:
            self._fail(failure)
            return
        if not self._closed:
            self._activate(journal, loaded)

    def _fail(self, failure: Exception) -> None:
        """It can't be led as it is: nobody is served, and everybody told to look elsewhere."""
        self.failed = True
        of_log = isinstance(failure, OSError | StorageError | ApiError)
        logger.error(
            "loading %s-%d failed: %s",
            *self.replica.key,
            failure,
            exc_info=None if of_log else failure,
        )
        if of_log:
            self.replica.read_failed(failure)

    def _journal_from(self, end: int) -> Journal:
        """The journal of the machine, to which all has been applied that is below `end`."""
        parts = self._parts
        self._ahead_ms = parts.clock.now_ms() - int(parts.clock.monotonic_s() * 1000)
        self._watch = parts.purgatory.watch(self.replica.key, self._partition_changed)
        self._journal = Journal(
            self.machine,
            self._port,
            applied_end=end,
            commit_timeout_ms=self._settings.commit_timeout_ms,
        )
        return self._journal

    def _activate(self, journal: Journal, loaded: Loaded) -> None:
        self.is_active, self.loaded = True, loaded
        self._after(journal)
        self._on_loaded(self)

    async def _carry_out_all(self, journal: Journal, decisions: Iterator[Decision]) -> None:
        """Carry out what may be much, in slices, and others' requests in between."""
        clock = self._parts.clock
        began_s = clock.monotonic_s()
        while True:
            ticket = Ticket()
            self._turns.do(self._one_of(journal, decisions, ticket), ticket)
            goes_on = self._result(ticket)
            if asyncio.isfuture(goes_on):
                goes_on = await goes_on
            if not goes_on or self._closed:
                return
            if clock.monotonic_s() - began_s > TICK_SLICE_S:
                if not self.is_active:
                    self._parts.replayed()
                await self._parts.tasks.sleep(0)
                began_s = clock.monotonic_s()

    def _one_of(
        self, journal: Journal, decisions: Iterator[Decision], ticket: Ticket
    ) -> Slices[None]:
        """Tells whether there was one."""
        decision = next(decisions, None)
        if decision is not None:
            yield from journal.carry_out_slowly(decision, self.now_ms())
        ticket.settle(decision is not None)

    async def carry_out(self, decisions: Iterator[Decision]) -> None:
        """Carry out what a change elsewhere leads to, in slices."""
        journal = self._journal
        if journal is None:
            return
        try:
            await self._carry_out_all(journal, decisions)
        except Exception:  # of one group, perhaps: the others are told the next time
            logger.exception("%s-%d: a request failed with an unexpected error", *self.replica.key)
        self._after(journal)

    def close(self, code: ErrorCode) -> None:
        """Lead no more: whoever waits for an answer gets `code`."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watch is not None:
            self._watch.cancel()
        self.is_active = False
        if self._journal is not None:
            self._journal.resign(code)
            self._journal = None

    # -- requests -------------------------------------------------------------------------

    def call(self, ask: Callable[[M, Ticket, int], Made]) -> Any:
        """Have the machine asked. The answer, or, if it comes later, something to await; ApiError
        from either."""
        journal = self._admit()
        ticket = Ticket()
        turns = self._turns
        if turns.work:
            turns.do(self._asked(ask, ticket), ticket)
        else:
            now_ms = self.now_ms()
            try:
                made = ask(self.machine, ticket, now_ms)
                if not isinstance(made, Decision):
                    made = begun(made)
                is_done = isinstance(made, Decision) and journal.carry_out_at_once(made, now_ms)
            except Exception:
                self._after(journal)  # it may have set a deadline before
                raise
            if is_done:
                self._after(journal)
            else:
                turns.do(self._carried_out(journal, made, now_ms), ticket)
        return self._result(ticket)

    def _asked(self, ask: Callable[[M, Ticket, int], Made], ticket: Ticket) -> Slices[None]:
        journal = self._active()
        now_ms = self.now_ms()
        try:
            made = ask(self.machine, ticket, now_ms)
        except Exception:
            self._after(journal)  # as in `call`
            raise
        yield from self._carried_out(journal, made, now_ms)

    def _carried_out(self, journal: Journal, made: Made, now_ms: int) -> Slices[None]:
        if not isinstance(made, Decision):
            yield  # where it has been begun, others may have the loop now
        try:
            yield from journal.carry_out_slowly(made, now_ms)
        except Exception:
            self._after(journal)  # as in `call`
            raise
        self._after(journal)

    def read(self, look: Callable[[M, int], T]) -> T | Awaitable[T]:
        """What `look` finds in the state, once all that is committed. It may set deadlines."""
        journal = self._admit()
        if not self._turns.work and journal.is_settled:
            try:
                return look(self.machine, self.now_ms())
            finally:
                self._after(journal)
        ticket = Ticket()
        self._turns.do(self._asked(partial(_looked, look), ticket), ticket)
        result: T | Awaitable[T] = self._result(ticket)
        return result

    def read_at_once(self, look: Callable[[M, int], T]) -> T | None:
        """The same; None, without a look, if it would have to wait or can't be asked."""
        if not self.is_settled():
            return None
        machine = self.machine
        found = look(machine, self.now_ms())
        at_ms = machine.timers.wake_at()  # nothing else can have changed
        if at_ms is not None and (self._timer is None or at_ms < self._armed_ms):
            self._arm(at_ms)
        return found

    def is_settled(self) -> bool:
        """Whether the machine can be asked at once: it is active, nothing is being worked at, and
        all that it is made of is committed. Who asks it something by itself sets no deadline."""
        journal = self._journal
        return (
            journal is not None
            and self.is_active
            and not self._turns.work
            # as `journal.is_settled`, which would take two more calls
            and self.replica.partition.high_watermark >= journal.applied_end
        )

    def _admit(self) -> Journal:
        self._turns.admit()
        return self._active()

    def _active(self) -> Journal:
        journal = self._journal
        if journal is None or not self.is_active:
            gone = self.failed or self._closed
            raise ApiError(ErrorCode.NOT_COORDINATOR if gone else _LOADING)
        return journal

    def _result(self, ticket: Ticket) -> Any:
        if not ticket.settled:
            future = self._parts.tasks.future()
            ticket.wake = partial(_tell, future)
            return future
        if ticket.failure is not None:
            raise ticket.failure
        return ticket.answer

    def marked(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """A transaction's marker has been appended to the partition."""
        if self._journal is not None:  # else it is replayed
            end = self.replica.log.end_offset
            work = self._journal.marked(producer_id, producer_epoch, committed, end)
            self._turns.do_next(self._marker_applied(work, producer_id), Ticket())

    def _marker_applied(self, work: Slices[None], producer_id: int) -> Slices[None]:
        try:
            yield from work
        except Exception:  # the marker is in the log: to write it once more would not help
            logger.exception(
                "%s-%d: the end of a transaction of producer %d could not be applied",
                *self.replica.key,
                producer_id,
            )

    # -- time and the high watermark ------------------------------------------------------

    def _partition_changed(self) -> None:
        journal = self._journal
        if journal is not None and journal.is_waited_for:
            journal.committed()
            self._after(journal)

    def _give_more(self) -> None:
        self._gives_more = False
        self._partition_changed()

    def _after(self, journal: Journal) -> None:
        """Carry out commands, and see to it that the next deadline is met, and that answers which
        were too many for one turn of the loop are given in the next ones."""
        if journal.owes and not self._gives_more:
            self._gives_more = True
            self._parts.tasks.call_soon(self._give_more)
        if journal.commands and not self._closed:
            self._carry_out_commands(journal)
        at_ms = journal.wake_at()
        if at_ms is not None and (self._timer is None or at_ms < self._armed_ms):
            self._arm(at_ms)

    def _carry_out_commands(self, journal: Journal) -> None:
        commands = journal.commands
        for _ in range(COMMANDS_A_TURN):
            if not commands:  # what one leads to may have carried out the others
                return
            command = commands.popleft()
            try:
                self._perform(command)
            except Exception:  # the others, and the deadlines, do not depend on it
                logger.exception("%s-%d: %r could not be carried out", *self.replica.key, command)
        if commands:
            self._parts.tasks.call_soon(self._after, journal)

    def now_ms(self) -> int:
        """The time of the day, which the machine is to be asked with: if somebody has set it, all
        deadlines are moved now."""
        clock = self._parts.clock
        now_ms = clock.now_ms()
        by_ms = now_ms - int(clock.monotonic_s() * 1000) - self._ahead_ms
        if not -CLOCK_SET_MS < by_ms < CLOCK_SET_MS:
            self._ahead_ms += by_ms
            self._armed_ms += by_ms
            self.machine.timers.clock_set(by_ms)
        return now_ms

    def _arm(self, at_ms: int) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ms = at_ms
        delay_s = max(0, at_ms - self._parts.clock.now_ms()) / 1000
        self._timer = self._parts.tasks.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        journal = self._journal
        if journal is None:
            return
        self._turns.do(self._due(journal), Ticket())

    def _due(self, journal: Journal) -> Slices[None]:
        """Deal with what is due."""
        self._timer = None
        clock = self._parts.clock
        began_s = clock.monotonic_s()
        now_ms = self.now_ms()
        try:
            while (yield from journal.tick_slowly(now_ms)):
                if clock.monotonic_s() - began_s >= TICK_SLICE_S:
                    break
        except Exception:  # the deadline of one group, perhaps: the others need theirs
            logger.exception("%s-%d: a timer failed", *self.replica.key)
        self._after(journal)


def _looked(look: Callable[[M, int], T], machine: M, ticket: Ticket, now_ms: int) -> Decision:
    """What was looked at is told when all that it rests on is committed."""
    return Decision(replies=[Reply(ticket, look(machine, now_ms))])


def _tell(future: asyncio.Future[Any], ticket: Ticket) -> None:
    if future.done():
        return  # nobody waits any more
    if ticket.failure is not None:
        future.set_exception(ticket.failure)
        future.exception()  # or asyncio would report it if whoever waited is gone
    else:
        future.set_result(ticket.answer)
