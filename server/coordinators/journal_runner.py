"""Runs the state machine of one coordinator partition while this broker leads the partition.

It replays the log into the state machine (`journal_loader`), appends the records that operations
return, releases replies when the high watermark passes them, and keeps one timer for all deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kavka.log.errors import StorageError
from kavka.log.journal import Decision, DecisionOrSteps, Journal, Machine, Reply, ReplyFuture
from kavka.seams import Clock, Jobs, Tasks, Timer
from kavka.server.coordinators.journal_loader import (
    LOADS_AT_ONCE_MAX,
    LoadSlots,
    LoadSummary,
    Superseded,
    load,
)
from kavka.server.coordinators.journal_port import ReplicaPort
from kavka.server.coordinators.serial_queue import TICK_SLICE_S, SerialQueue
from kavka.server.replica.manager import ReplicaManager
from kavka.server.replica.replica import Replica
from kavka.server.runtime.purgatory import Purgatory, Wait
from kavka.wire.compression import Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, run_at_once

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
T = TypeVar("T")

CLOCK_SET_MS: Final = 1000
"""A jump of the wall clock against the monotonic clock from which it counts as having been set.
Deadlines then move with it, so that no session expires early or late. Timestamps in records and
the expiry of offsets use the wall clock."""

COMMANDS_PER_STEP: Final = 100
"""Commands executed before a yield to the event loop, at some 10 us each. There are more only if
a load finds very many unfinished transactions."""

_LOADING: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _ignore(argument: object) -> None:
    """The default callback."""


class Settings(NamedTuple):
    """The settings of a runner."""

    commit_timeout_ms: int
    codec: Codec
    load_bytes: int
    """Bytes that are read at a time when loading."""
    base_sequence: int
    """Of each batch; constant, as Apache Kafka's coordinators always write 0 or -1."""


class RunnerResources(NamedTuple):
    """What the runners of one broker share."""

    clock: Clock
    tasks: Tasks
    jobs: Jobs
    purgatory: Purgatory
    load_slots: LoadSlots
    on_slice: Callable[[], object]
    """Called after each slice of a load, which has made objects that stay."""


def resources_of(replicas: ReplicaManager, on_slice: Callable[[], object]) -> RunnerResources:
    """The shared resources of the runners of one broker."""
    load_slots = asyncio.Semaphore(LOADS_AT_ONCE_MAX)
    return RunnerResources(
        replicas.clock, replicas.tasks, replicas.jobs, replicas.purgatory, load_slots, on_slice
    )


class JournalRunner(Generic[M]):
    """Runs one state machine, for one leader epoch of its partition."""

    __slots__ = (
        "_clock_offset_ms",
        "_armed_ms",
        "_closed",
        "_releases_more",
        "_journal",
        "_on_loaded",
        "_resources",
        "_perform",
        "_port",
        "_settings",
        "_timer",
        "_queue",
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
        resources: RunnerResources,
        *,
        on_loaded: Callable[[JournalRunner[M]], object] = _ignore,
        perform: Callable[[Hashable], object] = _ignore,
    ) -> None:
        """`perform` executes the state machine's commands."""
        self.replica: Final = replica
        self.machine: Final = machine
        self.is_active = False
        """Whether the log is loaded and requests are served."""
        self._journal: Journal | None = None
        self.loaded: LoadSummary | None = None
        """The result of the load; None until it is done."""
        self.failed = False
        """Whether the load has failed."""
        self._settings = settings
        self._resources = resources
        self._perform = perform
        self._on_loaded = on_loaded
        self._port = ReplicaPort(replica, settings.codec, settings.base_sequence)
        self._timer: Timer | None = None
        self._armed_ms = 0
        self._clock_offset_ms = 0
        self._watch: Wait | None = None
        self._closed = False
        self._releases_more = False
        name = "operation queue of {}-{}".format(*replica.key)
        self._queue: Final = SerialQueue(resources.tasks, resources.clock, name)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch that this runner is for."""
        return self._port.leader_epoch

    @property
    def is_loading(self) -> bool:
        """Whether the log is being loaded."""
        return not (self.is_active or self.failed or self._closed)

    @property
    def leads(self) -> bool:
        """Whether this broker still leads the partition in that epoch."""
        return self._port.leads

    # -- loading and unloading ----------------------------------------------------------

    def begin(self) -> None:
        """Start loading. With an empty log the runner is active at once."""
        log = self.replica.log
        if log.start_offset < log.end_offset:
            name = "replay of {}-{}".format(*self.replica.key)
            self._resources.tasks.spawn(self._load(), name=name)
            return
        now_ms = self._resources.clock.now_ms()
        try:
            journal = self._journal_from(log.end_offset)
            for decision in self.machine.loaded(now_ms):
                run_at_once(journal.execute_in_steps(decision, now_ms))
        except Exception as failure:
            self._fail(failure)
        else:
            self._activate(journal, LoadSummary(log.end_offset, 0, 0, now_ms, 0, 0))

    async def _load(self) -> None:
        resources = self._resources
        try:
            loaded = await load(
                self.replica,
                self.machine,
                bytes_max=self._settings.load_bytes,
                is_current=lambda: not self._closed and self.leads,
                tasks=resources.tasks,
                jobs=resources.jobs,
                clock=resources.clock,
                load_slots=resources.load_slots,
                on_slice=resources.on_slice,
            )
            journal = self._journal_from(loaded.end)
            decisions = iter(self.machine.loaded(resources.clock.now_ms()))
            await self._execute_all(journal, decisions)
            resources.on_slice()
        except Superseded:
            return
        except Exception as failure:
            self._fail(failure)
            return
        if not self._closed:
            self._activate(journal, loaded)

    def _fail(self, failure: Exception) -> None:
        """The load has failed: requests get NOT_COORDINATOR from now on."""
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
        """The journal of the state machine, which has applied all records below `end`."""
        resources = self._resources
        self._clock_offset_ms = resources.clock.now_ms() - int(resources.clock.monotonic_s() * 1000)
        self._watch = resources.purgatory.watch(self.replica.key, self._partition_changed)
        self._journal = Journal(
            self.machine,
            self._port,
            applied_end=end,
            commit_timeout_ms=self._settings.commit_timeout_ms,
        )
        return self._journal

    def _activate(self, journal: Journal, loaded: LoadSummary) -> None:
        self.is_active, self.loaded = True, loaded
        self._after_operation(journal)
        self._on_loaded(self)

    async def _execute_all(self, journal: Journal, decisions: Iterator[Decision]) -> None:
        """Carry out decisions in slices, with other requests in between."""
        clock = self._resources.clock
        began_s = clock.monotonic_s()
        while True:
            reply_future = ReplyFuture()
            self._queue.run(self._run_next(journal, decisions, reply_future), reply_future)
            has_more = self._result(reply_future)
            if asyncio.isfuture(has_more):
                has_more = await has_more
            if not has_more or self._closed:
                return
            if clock.monotonic_s() - began_s > TICK_SLICE_S:
                if not self.is_active:
                    self._resources.on_slice()
                await self._resources.tasks.sleep(0)
                began_s = clock.monotonic_s()

    def _run_next(
        self, journal: Journal, decisions: Iterator[Decision], reply_future: ReplyFuture
    ) -> Steps[None]:
        """Carry out the next decision. `reply_future` becomes True, or False if there was none."""
        decision = next(decisions, None)
        if decision is not None:
            yield from journal.execute_in_steps(decision, self.now_ms())
        reply_future.complete(decision is not None)

    async def execute(self, decisions: Iterator[Decision]) -> None:
        """Carry out decisions that follow from a change elsewhere, in slices."""
        journal = self._journal
        if journal is None:
            return
        try:
            await self._execute_all(journal, decisions)
        except Exception:  # perhaps of one group; the others are handled by the next change
            logger.exception("%s-%d: a request failed with an unexpected error", *self.replica.key)
        self._after_operation(journal)

    def close(self, code: ErrorCode) -> None:
        """Stop: the leader epoch has ended. Pending requests fail with `code`."""
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

    def call(self, operation: Callable[[M, ReplyFuture, int], DecisionOrSteps]) -> Any:
        """Run an operation on the state machine. Returns the response, or an awaitable of it if
        records have to be committed first. ApiError from either."""
        self._admit()
        reply_future = ReplyFuture()
        self._queue.run(self._run_operation(operation, reply_future), reply_future)
        return self._result(reply_future)

    def _run_operation(
        self,
        operation: Callable[[M, ReplyFuture, int], DecisionOrSteps],
        reply_future: ReplyFuture,
    ) -> Steps[None]:
        journal = self._active()
        now_ms = self.now_ms()
        try:
            made = operation(self.machine, reply_future, now_ms)
            yield from journal.execute_in_steps(made, now_ms)
        except Exception:
            self._after_operation(journal)  # it may have set a deadline before
            raise
        self._after_operation(journal)

    def read(self, query: Callable[[M, int], T]) -> T | Awaitable[T]:
        """The result of a query, once the state that it read is committed. It may set deadlines."""
        journal = self._admit()
        if not self._queue.work and journal.is_fully_committed:
            try:
                return query(self.machine, self.now_ms())
            finally:
                self._after_operation(journal)
        reply_future = ReplyFuture()
        self._queue.run(
            self._run_operation(partial(_query_decision, query), reply_future), reply_future
        )
        result: T | Awaitable[T] = self._result(reply_future)
        return result

    def try_read(self, query: Callable[[M, int], T]) -> T | None:
        """The same; None, without running it, if it would have to wait."""
        found = self.read(query) if self.is_settled() else None
        assert not isinstance(found, Awaitable), "all that was applied is committed"
        return found

    def is_settled(self) -> bool:
        """Whether the state machine can be read directly: it is active, no operation is running,
        and all its records are committed. A caller that reads it directly sets no deadline."""
        journal = self._journal
        return (
            journal is not None
            and self.is_active
            and not self._queue.work
            and journal.is_fully_committed
        )

    def _admit(self) -> Journal:
        self._queue.admit()
        return self._active()

    def _active(self) -> Journal:
        journal = self._journal
        if journal is None or not self.is_active:
            gone = self.failed or self._closed
            raise ApiError(ErrorCode.NOT_COORDINATOR if gone else _LOADING)
        return journal

    def _result(self, reply_future: ReplyFuture) -> Any:
        if not reply_future.is_complete:
            future = self._resources.tasks.future()
            reply_future.on_complete = partial(_complete_future, future)
            return future
        if reply_future.failure is not None:
            raise reply_future.failure
        return reply_future.response

    def marker_appended(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Apply a transaction marker that was appended to the partition, before any queued work."""
        if self._journal is not None:  # else the load replays it
            end = self.replica.log.end_offset
            work = self._journal.marker_appended(producer_id, producer_epoch, committed, end)
            self._queue.run_next(self._apply_marker(work, producer_id), ReplyFuture())

    def _apply_marker(self, work: Steps[None], producer_id: int) -> Steps[None]:
        try:
            yield from work
        except Exception:  # the marker is in the log already, so no retry would help
            logger.exception(
                "%s-%d: a transaction marker of producer %d could not be applied",
                *self.replica.key,
                producer_id,
            )

    # -- time and the high watermark ------------------------------------------------------

    def _partition_changed(self) -> None:
        journal = self._journal
        if journal is not None and journal.is_waited_for:
            journal.release_replies()
            self._after_operation(journal)

    def _release_more(self) -> None:
        self._releases_more = False
        self._partition_changed()

    def _after_operation(self, journal: Journal) -> None:
        """Follow-up of every operation: execute commands, set the timer for the next deadline, and
        schedule the release of replies that are too many for one iteration of the loop."""
        if journal.has_due_replies and not self._releases_more:
            self._releases_more = True
            self._resources.tasks.call_soon(self._release_more)
        if journal.commands and not self._closed:
            self._run_commands(journal)
        at_ms = journal.wake_at()
        if at_ms is not None and (self._timer is None or at_ms < self._armed_ms):
            self._arm(at_ms)

    def _run_commands(self, journal: Journal) -> None:
        commands = journal.commands
        for _ in range(COMMANDS_PER_STEP):
            if not commands:  # a command may have led to a nested call that executed the rest
                return
            command = commands.popleft()
            try:
                self._perform(command)
            except Exception:  # the other commands and the deadlines must still be handled
                logger.exception("%s-%d: executing %r failed", *self.replica.key, command)
        if commands:
            self._resources.tasks.call_soon(self._after_operation, journal)

    def now_ms(self) -> int:
        """The wall clock time to pass to operations. If the clock was set, this moves all
        deadlines."""
        clock = self._resources.clock
        now_ms = clock.now_ms()
        by_ms = now_ms - int(clock.monotonic_s() * 1000) - self._clock_offset_ms
        if not -CLOCK_SET_MS < by_ms < CLOCK_SET_MS:
            self._clock_offset_ms += by_ms
            self._armed_ms += by_ms
            self.machine.timers.clock_shifted(by_ms)
        return now_ms

    def _arm(self, at_ms: int) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ms = at_ms
        delay_s = max(0, at_ms - self._resources.clock.now_ms()) / 1000
        self._timer = self._resources.tasks.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        journal = self._journal
        if journal is None:
            return
        self._queue.run(self._expire_timers(journal), ReplyFuture())

    def _expire_timers(self, journal: Journal) -> Steps[None]:
        """Run the timers that are due."""
        self._timer = None
        clock = self._resources.clock
        began_s = clock.monotonic_s()
        now_ms = self.now_ms()
        try:
            while (yield from journal.tick_in_steps(now_ms)):
                if clock.monotonic_s() - began_s >= TICK_SLICE_S:
                    break
        except Exception:  # perhaps of one group; the other timers must still run
            logger.exception("%s-%d: a timer failed", *self.replica.key)
        self._after_operation(journal)


def _query_decision(
    query: Callable[[M, int], T], machine: M, reply_future: ReplyFuture, now_ms: int
) -> Decision:
    """A decision that replies with the result of a query once the state is committed."""
    return Decision(replies=[Reply(reply_future, query(machine, now_ms))])


def _complete_future(future: asyncio.Future[Any], reply_future: ReplyFuture) -> None:
    if future.done():
        return  # the caller was cancelled
    if reply_future.failure is not None:
        future.set_exception(reply_future.failure)
        future.exception()  # else asyncio would log it if the caller was cancelled
    else:
        future.set_result(reply_future.response)
