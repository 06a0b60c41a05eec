"""A broker's session with the simulated ZooKeeper: `kavka.zktree.api.Coordination`.

All of it runs as the broker's process: one that was killed or is paused hears nothing, and its
session expires. The client pings three times in a session's timeout, and gives a connection up
after two pings without an answer (ZooKeeper's does after two thirds of the timeout). While it has
none, requests wait; with the next one they are sent, or sent again, if they have not taken effect.

That the session has expired it learns from the service only, when it reaches it again, as every
client of ZooKeeper does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kavka.log.fs import FileSystem
from kavka.seams import Clock, Jobs, Tasks, Timer
from kavka.zktree.api import (
    SESSION_ENDED,
    ConnectionLost,
    Coordination,
    CoordinationError,
    Op,
    OpenCoordination,
    OpResult,
    SessionEvent,
    SessionExpired,
    SingleWrites,
    Stat,
    Watch,
    Znode,
)
from sim.ensemble import Connection, Ensemble
from sim.ensemble_messages import (
    NEW,
    Expired,
    Fired,
    Hello,
    HungUp,
    Message,
    Numbered,
    Ping,
    Pong,
    Request,
    Result,
    Welcome,
    Work,
)
from sim.loop import Process

RECONNECT_S: Final = 0.3
"""Between two attempts to connect."""

PINGS: Final = 3
"""Pings in a session's timeout."""

UNANSWERED_PINGS_MAX: Final = 2
"""So many pings without an answer end a connection."""


@dataclass
class _Pending:
    work: Work
    future: asyncio.Future[Any]
    was_sent: bool = False


class EnsembleSession(SingleWrites):
    """The session of one process; made by `session_opener`."""

    def __init__(
        self, ensemble: Ensemble, process: Process, host: str, tasks: Tasks, timeout_s: float
    ) -> None:
        self.session_id = NEW
        self.last_zxid = 0
        self.opened: asyncio.Future[None] = tasks.future()
        self._ensemble = ensemble
        self._process = process
        self._host = host
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._listeners: list[Callable[[SessionEvent], object]] = []
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        """Of the last request."""
        self._received = 0
        """The number of the last `Numbered`."""
        self._connection: Connection | None = None
        self._is_welcome = False
        """Whether requests can be sent on the connection."""
        self._unanswered_pings = 0
        self._is_closing = False
        self._is_over = False
        self._connect()
        self._schedule_ping()

    # Requests

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        operations = tuple(ops)
        return self._ask(lambda at: at.multi(operations))

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        return self._ask(lambda at: at.get(path, watch))

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        return self._ask(lambda at: at.exists(path, watch))

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        return self._ask(lambda at: at.children(path, watch))

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        """Without a connection it waits no longer than the session's timeout: by then, or soon,
        the session has expired."""
        if self._is_over:
            return
        closing = self._ask(lambda at: at.close())
        self._is_closing = True
        giving_up = self._tasks.call_later(self._timeout_s, self._expire)
        with suppress(*SESSION_ENDED):
            await closing
        giving_up.cancel()
        self.abandon()

    def abandon(self) -> None:
        self._is_over = True
        self._connection = None
        self._ping_timer.cancel()

    def _write(self, op: Op) -> Awaitable[Any]:
        return self._ask(lambda at: at.write(op))

    def _ask(self, work: Work) -> asyncio.Future[Any]:
        future = self._tasks.future()
        if self._is_over or self._is_closing:
            _fail(future, SessionExpired())
            return future
        self._number += 1
        pending = self._pending[self._number] = _Pending(work, future)
        if self._is_welcome:
            self._send(self._number, pending)
        return future

    def _send(self, number: int, pending: _Pending) -> None:
        assert self._connection is not None
        pending.was_sent = True
        self._connection.send(Request(number, pending.work, self._received))

    # The connection

    def _connect(self) -> None:
        if self._is_over:
            return
        self._unanswered_pings = 0
        self._connection = self._ensemble.connect(self._process, self._host, self._on_message)
        if self._connection is None:
            self._tasks.call_later(RECONNECT_S, self._connect)
        else:
            self._connection.send(Hello(self.session_id, self._timeout_s, self._received))

    def _schedule_ping(self) -> None:
        self._ping_timer: Timer = self._tasks.call_later(self._timeout_s / PINGS, self._ping)

    def _ping(self) -> None:
        self._schedule_ping()
        if self._connection is None:
            return
        if self._unanswered_pings == UNANSWERED_PINGS_MAX:
            self._lose()
            return
        self._unanswered_pings += 1
        if self._is_welcome:
            self._connection.send(Ping(self._received))

    def _lose(self) -> None:
        """The connection is lost, or given up."""
        was_welcome, self._is_welcome = self._is_welcome, False
        self._connection = None
        self._tasks.call_later(RECONNECT_S, self._connect)
        if was_welcome:
            self._notify(SessionEvent.SUSPENDED)

    def _on_message(self, connection: Connection, message: Message) -> None:
        if connection is not self._connection:
            return  # given up
        self._unanswered_pings = 0
        match message:
            case Numbered(number, payload):
                assert number == self._received + 1, "a session gets everything once, in order"
                self._received = number
                self._hear(payload)
            case Welcome():
                self._begin(message)
            case Expired():
                self._expire()
            case HungUp():
                self._lose()
            case _:
                assert isinstance(message, Pong)

    def _hear(self, payload: Result | Fired) -> None:
        if isinstance(payload, Fired):
            self._tasks.call_soon(payload.watch, payload.event)
            return
        self.last_zxid = payload.zxid
        future = self._pending.pop(payload.request).future
        if future.done():
            return  # its caller has gone
        if payload.error is None:
            future.set_result(payload.value)
        else:
            future.set_exception(payload.error)

    def _begin(self, welcome: Welcome) -> None:
        is_new = self.session_id == NEW
        self.session_id = welcome.session_id
        self._is_welcome = True
        for number, pending in self._pending.items():
            if number > welcome.applied:
                self._send(number, pending)
        if not is_new:
            self._notify(SessionEvent.CONNECTED)
        elif not self.opened.done():
            self.opened.set_result(None)

    def _expire(self) -> None:
        self._fail_pending()
        if not self._is_closing:
            self._notify(SessionEvent.EXPIRED)
        self.abandon()

    def _fail_pending(self) -> None:
        """Nothing will be heard of these requests: those that were sent may have taken effect."""
        while self._pending:
            pending = self._pending.pop(next(iter(self._pending)))
            _fail(pending.future, ConnectionLost() if pending.was_sent else SessionExpired())

    def _notify(self, event: SessionEvent) -> None:
        for listener in self._listeners:
            self._tasks.call_soon(listener, event)


def _fail(future: asyncio.Future[Any], error: CoordinationError) -> None:
    """The end of a session fails all requests, of which their caller may await the first only."""
    if not future.done():
        future.set_exception(error)
        future.exception()


def session_opener(
    ensemble: Ensemble, process: Process, host: str, timeout_s: float
) -> OpenCoordination:
    """How a broker's process opens its session. It waits for as long as ZooKeeper can't be
    reached."""

    async def open_session(
        fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> Coordination:
        session = EnsembleSession(ensemble, process, host, tasks, timeout_s)
        await session.opened
        return session

    return open_session
