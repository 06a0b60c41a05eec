"""ZooKeeper of a simulated world: one tree with sessions on the world's time.

It runs as the world, on a host of its own. It may be away for a while, but forgets nothing. What
it sends a session, results and watch events, it numbers in the order in which they came about, and
keeps until the session has said that it has them. After a lost connection it sends the rest again,
so a request that had taken effect is answered with its result and not applied twice. (ZooKeeper
itself keeps no results: there a client has to read what came of its requests. Nor does it keep
events: a watch that is set again fires if the node differs from what the client saw last.)
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kavka.seams import Clock
from kavka.wire.errors import clear_tracebacks
from kavka.zktree.api import (
    CoordinationError,
    MultiFailed,
    Op,
    OpResult,
    Stat,
    Watch,
    Znode,
)
from kavka.zktree.tree import CloseSession, MultiTransaction, Tree, TreeOp, Watches
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
    Way,
    Welcome,
)
from sim.loop import Process, SimClock
from sim.network import SimNetwork

ZOOKEEPER: Final = "zookeeper"
"""The name of its host."""


class Connection:
    """A connection to the service; `send` is the client's."""

    def __init__(
        self, ensemble: Ensemble, process: Process, host: str, on_message: Callable[..., object]
    ) -> None:
        self.session: ServiceSession | None = None
        self._process = process
        self._on_message = partial(on_message, self)
        self._to_service = Way(ensemble.network, (host, ZOOKEEPER), partial(ensemble.receive, self))
        self._to_client = Way(ensemble.network, (ZOOKEEPER, host), self._deliver)

    def send(self, message: Message) -> None:
        """Send a message to the service."""
        self._to_service.send(message)

    def answer(self, message: Message) -> None:
        """Send a message to the client."""
        self._to_client.send(message)

    def reset(self) -> None:
        """What is on its way is lost, in both directions; the client learns of it."""
        self._to_service.drop()
        self._to_client.drop()
        self.answer(HungUp())

    def _deliver(self, message: Message) -> None:
        self._process.call_soon(self._on_message, message)


class ServiceSession:
    """A session as the service knows it; what a request's `Work` does is done here."""

    def __init__(self, ensemble: Ensemble, session_id: int, timeout_s: float) -> None:
        self.session_id = session_id
        self.timeout_s = timeout_s
        self.heard_s = ensemble.network.loop.now_s
        self.applied = 0
        self.connection: Connection | None = None
        self.watches = Watches()
        self._ensemble = ensemble
        self._tree = ensemble.tree
        self._sent = 0
        self._kept: deque[Numbered] = deque()
        """What the session may not have yet."""

    # Work

    def get(self, path: str, watch: Watch | None) -> Znode:
        """`Coordination.get`; the methods below are `Coordination`'s too."""
        found = self._tree.get(path)
        if watch is not None:
            self.watches.add_data(path, watch)
        return found

    def exists(self, path: str, watch: Watch | None) -> Stat | None:
        if watch is not None:
            self.watches.add_data(path, watch)
        return self._tree.exists(path)

    def children(self, path: str, watch: Watch | None) -> list[str]:
        found = self._tree.children(path)
        if watch is not None:
            self.watches.add_children(path, watch)
        return found

    def write(self, op: Op) -> OpResult:
        try:
            return self.multi([op])[0]
        except MultiFailed as failed:
            cause = failed.cause
        raise cause

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return self._ensemble.apply(self.session_id, ops)

    def close(self) -> None:
        self._ensemble.end(self, "is closed")

    # Messages

    def take(self, request: Request) -> None:
        """Do a request, and send its result."""
        assert request.number == self.applied + 1
        self.applied = request.number
        value, error = None, None
        try:
            value = request.work(self)
        except CoordinationError as failure:
            clear_tracebacks(failure)
            error = failure
        self.notify(Result(request.number, value, error, self._tree.zxid))

    def notify(self, payload: Result | Fired) -> None:
        """Send it now, if there is a connection, and after the next hello otherwise."""
        self._sent += 1
        numbered = Numbered(self._sent, payload)
        self._kept.append(numbered)
        if self.connection is not None:
            self.connection.answer(numbered)

    def acknowledged(self, received: int) -> None:
        """The session has all up to this number."""
        while self._kept and self._kept[0].number <= received:
            self._kept.popleft()

    def continue_on(self, connection: Connection, received: int) -> None:
        """Its client has connected, perhaps again."""
        self.acknowledged(received)
        connection.session, self.connection = self, connection
        connection.answer(Welcome(self.session_id, self.applied))
        for numbered in self._kept:
            connection.answer(numbered)


class Ensemble:
    """The service. `clock` gives nodes their times, by default the world's."""

    def __init__(self, network: SimNetwork, clock: Clock | None = None) -> None:
        self.network = network
        self.tree = Tree()
        self.sessions: dict[int, ServiceSession] = {}
        """Those that are alive."""
        self._loop = network.loop
        self._clock = clock or SimClock(self._loop.world)
        self._ids = itertools.count(NEW + 1)
        self._is_down = False

    def connect(
        self, process: Process, host: str, on_message: Callable[..., object]
    ) -> Connection | None:
        """A connection from a host, or None while no handshake comes through. `on_message` is
        called as `process`, with the connection and each message."""
        network = self.network
        if self._is_down or network.is_cut(host, ZOOKEEPER) or network.is_cut(ZOOKEEPER, host):
            return None
        return Connection(self, process, host, on_message)

    def receive(self, connection: Connection, message: Message) -> None:
        """A message has arrived. Those on a connection that a session has left, or whose session
        has ended, have no effect."""
        if isinstance(message, Hello):
            self._greet(connection, message)
            return
        assert isinstance(message, Request | Ping)
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.heard_s = self._loop.now_s
        session.acknowledged(message.received)
        if isinstance(message, Ping):
            connection.answer(Pong())
        else:
            session.take(message)

    def _greet(self, connection: Connection, hello: Hello) -> None:
        if hello.session_id == NEW:
            session = ServiceSession(self, next(self._ids), hello.timeout_s)
            self.sessions[session.session_id] = session
            self._say(session, "begins")
            self._loop.world.call_later(session.timeout_s, self._check, session)
        elif hello.session_id in self.sessions:
            session = self.sessions[hello.session_id]
            session.heard_s = self._loop.now_s
        else:
            connection.answer(Expired())
            return
        session.continue_on(connection, hello.received)

    def _check(self, session: ServiceSession) -> None:
        """Expire a session that nothing was heard of; else look again when it would be due."""
        due_s = session.heard_s + session.timeout_s
        if session.session_id not in self.sessions:
            return
        if self._is_down:
            self._loop.world.call_later(session.timeout_s, self._check, session)
        elif self._loop.now_s < due_s:
            self._loop.world.call_at(due_s, self._check, session)
        else:
            self.expire(session)

    def expire(self, session: ServiceSession) -> None:
        """End a session as if nothing had been heard of it; its client learns of it."""
        self.end(session, "expires")
        if session.connection is not None:
            session.connection.answer(HungUp())
            session.connection = None

    def end(self, session: ServiceSession, how: str) -> None:
        """End a session: its ephemeral nodes are deleted."""
        self._say(session, how)
        del self.sessions[session.session_id]
        self.apply(session.session_id, [CloseSession(session.session_id)])

    def apply(self, session_id: int, ops: Sequence[TreeOp]) -> list[OpResult]:
        """Execute a transaction, and fire the watches of all sessions. MultiFailed."""
        transaction = MultiTransaction(self.tree.zxid + 1, self._clock.now_ms(), session_id, ops)
        results, events = self.tree.execute(transaction)
        for session in self.sessions.values():
            for watch, event in session.watches.trigger(events):
                session.notify(Fired(watch, event))
        return results

    def reset_all(self) -> None:
        """Reset the connections of all sessions."""
        for session in self.sessions.values():
            if session.connection is not None:
                session.connection.reset()
                session.connection = None

    def stop(self) -> None:
        """The service is down. No session expires meanwhile, and all is there again afterwards."""
        self._is_down = True
        self.network.trace.add(ZOOKEEPER, "stops")
        self.reset_all()

    def start(self) -> None:
        """The service is up again; each session has all of its time to connect."""
        self._is_down = False
        self.network.trace.add(ZOOKEEPER, "starts")
        for session in self.sessions.values():
            session.heard_s = self._loop.now_s

    def _say(self, session: ServiceSession, event: str) -> None:
        self.network.trace.add(ZOOKEEPER, f"session {session.session_id} {event}")
