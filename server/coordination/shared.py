"""A coordination service in memory, shared by the brokers of one event loop: for tests, and for
clusters in one process that keep no data (`kavka dev`).

It has ZooKeeper's sessions: one that is abandoned, as by SIGKILL, expires after its timeout, and
its ephemeral nodes are deleted. Requests take effect in the order in which they are sent, and a
session's watch events come before the responses to its later requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kavka.log.fs import FileSystem
from kavka.seams import Clock, Jobs, Tasks, Timer
from kavka.server.coordination.tree_session import TreeSession
from kavka.wire.errors import clear_tracebacks
from kavka.zktree.api import (
    Coordination,
    CoordinationError,
    Op,
    OpenCoordination,
    OpResult,
    SessionEvent,
    SessionExpired,
    WatchEvent,
)
from kavka.zktree.tree import CloseSession, MultiTransaction, Tree, TreeOp

if TYPE_CHECKING:
    import asyncio


class SharedCoordination:
    """The tree, and the sessions of all brokers."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        """`tasks`: they must outlive every broker."""
        self.tree = Tree()
        self._clock = clock
        self._tasks = tasks
        self._sessions: dict[int, SharedSession] = {}
        self._expiries: dict[int, Timer] = {}
        """Of abandoned sessions."""
        self._last_id = 0

    def opener(self, timeout_s: float) -> OpenCoordination:
        """Opens a broker's sessions, each with this timeout."""

        async def open_session(
            fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
        ) -> Coordination:
            self._last_id += 1
            session = SharedSession(self, self._last_id, timeout_s, tasks)
            self._sessions[session.session_id] = session
            return session

        return open_session

    def execute(self, session_id: int, ops: Sequence[TreeOp]) -> list[OpResult]:
        """Carry out one transaction. MultiFailed."""
        transaction = MultiTransaction(
            self.tree.zxid + 1, self._clock.now_ms(), session_id, tuple(ops)
        )
        results, events = self.tree.execute(transaction)
        for session in self._sessions.values():
            session.trigger(events)
        return results

    def end(self, session_id: int) -> None:
        """End a session: its ephemeral nodes are deleted."""
        self._expiries.pop(session_id, None)
        if self._sessions.pop(session_id, None) is not None:
            self.execute(session_id, [CloseSession(session_id)])

    def end_later(self, session_id: int, after_s: float) -> None:
        """A session was abandoned: end it after `after_s`."""
        if session_id in self._sessions:
            self._expiries[session_id] = self._tasks.call_later(after_s, self.end, session_id)

    def close(self) -> None:
        """Forget abandoned sessions."""
        for timer in self._expiries.values():
            timer.cancel()
        self._expiries.clear()


class SharedSession(TreeSession):
    """One broker's session."""

    def __init__(
        self, service: SharedCoordination, session_id: int, timeout_s: float, tasks: Tasks
    ) -> None:
        super().__init__(service.tree)
        self.session_id = session_id
        self._service = service
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._is_over = False

    @property
    def last_zxid(self) -> int:
        """The zxid of the last transaction."""
        return self._tree.zxid

    async def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._service.end(self.session_id)

    def abandon(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._service.end_later(self.session_id, self._timeout_s)

    def expire(self) -> None:
        """Expire, as ZooKeeper's sessions do that are silent for too long."""
        if not self._is_over:
            self._is_over = True
            self._service.end(self.session_id)
            for listener in self._listeners:
                self._tasks.call_soon(listener, SessionEvent.EXPIRED)

    def trigger(self, events: Sequence[WatchEvent]) -> None:
        """Call the watches for these events, unless the session has ended."""
        for watch, event in [] if self._is_over else self._watches.trigger(events):
            self._tasks.call_soon(watch, event)

    def _write_ops(self, ops: Sequence[Op]) -> list[OpResult]:
        return self._service.execute(self.session_id, ops)

    def _respond(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        future = self._tasks.future()
        try:
            if self._is_over:
                raise SessionExpired
            self._tasks.call_soon(_complete, future, work(), None)  # after the watches before it
        except CoordinationError as error:
            clear_tracebacks(error)  # a reference cycle otherwise: frame, future, error
            self._tasks.call_soon(_complete, future, None, error)
        return future


def _complete(future: asyncio.Future[Any], value: object, error: CoordinationError | None) -> None:
    if future.done():
        return  # its caller has gone
    if error is None:
        future.set_result(value)
        return
    future.set_exception(error)
    if isinstance(error, SessionExpired):
        future.exception()  # a caller that has asked several times awaits the first only
