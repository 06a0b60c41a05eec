"""A session with a real ZooKeeper: `kavka.zktree.api.Coordination`.

Requests are sent in the order of the calls, some ahead of their responses. When the connection is
lost the session goes on with another one, to any of the servers: watches are set again, so that
none misses a change; what came of the writes that were under way is read off the nodes
(`lost_writes`); what did not take effect is sent again, in its order. So a caller learns of a lost
connection only by `on_session`, and of the end of the session by ConnectionLost or SessionExpired.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from kavka.client.errors import ConnectFailed
from kavka.log.fs import FileSystem
from kavka.seams import Clock, Jobs, Network, Random, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.config.zookeeper_servers import ZooKeeperServers, parse_connect
from kavka.server.coordination import zookeeper_messages as messages
from kavka.server.coordination.digest_md5 import DigestMd5
from kavka.server.coordination.lost_writes import Outcome, Sight, settle
from kavka.server.coordination.zookeeper_connection import ZooKeeperConnection
from kavka.server.coordination.zookeeper_messages import AuthenticationFailed, Chroot, Request
from kavka.server.coordination.zookeeper_watches import SessionWatches, WatchedBy
from kavka.wire.errors import clear_tracebacks
from kavka.zktree.api import (
    BadArguments,
    ConnectionLost,
    Coordination,
    CoordinationError,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    OpenCoordination,
    OpResult,
    Overloaded,
    SessionEvent,
    SessionExpired,
    SingleWrites,
    Stat,
    Watch,
    Znode,
)

logger = logging.getLogger(__name__)

QUEUED_MAX: Final = 100_000
"""Requests that wait, for responses or for a connection; one more fails with Overloaded."""

RECONNECT_S_MAX: Final = 1.0
"""Longest wait between two rounds of attempts, when no server could be reached."""

FOR_BROKERS: Final = (
    "correct zookeeper.connect, or remove it if the broker is alone and keeps its metadata itself"
)
"""What to do where no server answers."""

_NEW_SESSION: Final = 0
_NO_PASSWORD: Final = bytes(16)


class Login(NamedTuple):
    """The user of a session (SASL)."""

    username: str
    password: str


@dataclass
class _Pending:
    """A request whose response has not come."""

    request: Request
    result: asyncio.Future[Any]
    watched: WatchedBy | None = None
    xid: int = 0
    since_zxid: int | None = None
    """The newest zxid known when the connection was lost on which the request was sent: its own
    transaction, if it took effect, has a higher one. None if it was not sent, or was settled."""


class ZooKeeperSession(SingleWrites):
    """Made by `open_session`, which waits until it is connected."""

    def __init__(
        self,
        servers: ZooKeeperServers,
        timeout_s: float,
        in_flight_max: int,
        *,
        network: Network,
        clock: Clock,
        tasks: Tasks,
        random: Random,
        login: Login | None = None,
        sets_acls: bool = False,
    ) -> None:
        """`in_flight_max`: how many requests may be sent without a response. `sets_acls`: whether
        new nodes get ACLs (`zookeeper.set.acl`)."""
        self.session_id = _NEW_SESSION
        self.last_zxid = 0
        self.opened: Final[asyncio.Future[None]] = tasks.future()
        self.last_failure = ""
        """Why the last attempt to connect failed; empty if none has."""
        self._addresses = servers.addresses
        self._chroot = Chroot(servers.chroot, is_secure=sets_acls)
        self._above = Chroot("", is_secure=sets_acls)
        self._login = login
        self._in_flight_max = in_flight_max
        self._timeout_ms = round(timeout_s * 1000)
        self._network = network
        self._clock = clock
        self._tasks = tasks
        self._random = random
        self._password = _NO_PASSWORD
        self._listeners: list[Callable[[SessionEvent], object]] = []
        self._watches = SessionWatches()
        self._queue: deque[_Pending] = deque()
        self._in_flight: deque[_Pending] = deque()
        self._xid = 0
        self._connection: ZooKeeperConnection | None = None
        """The one on which requests are sent."""
        self._is_resuming = False
        """Whether only the requests of `_resume` are sent."""
        self._is_closing = False
        self._is_over = False
        self._connecting = tasks.spawn(self._connect_for_life(), name="ZooKeeper session")

    # -- Coordination ---------------------------------------------------------------------

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        return self._ask(partial(messages.multi, ops))

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        request = partial(messages.get, path, watch=watch is not None)
        return self._ask(request, self._watches.on_data(path, watch))

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        request = partial(messages.exists, path, watch=watch is not None)
        return self._ask(request, self._watches.on_existence(path, watch))

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        request = partial(messages.children, path, watch=watch is not None)
        return self._ask(request, self._watches.on_children(path, watch))

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        """Close the session. Without a connection this takes the session's timeout at most: by
        then, or soon after, the session has expired."""
        if self._is_over:
            return
        closed = self._enqueue(messages.close(), None)
        self._is_closing = True
        giving_up = self._tasks.call_later(self._timeout_ms / 1000, self._end)
        try:
            await closed
        except CoordinationError as failure:
            logger.info("the session with ZooKeeper ended before it was closed: %r", failure)
        finally:
            giving_up.cancel()
            self.abandon()

    async def make_root(self) -> None:
        """Create the nodes of the chroot that are missing."""
        path = ""
        for name in self._chroot.root.split("/")[1:]:
            path += f"/{name}"
            try:
                await self._enqueue(messages.write(Create(path), self._above), None)
            except NodeExists:
                continue

    def abandon(self) -> None:
        self._is_over = True
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.close("the session is given up")

    # -- requests -------------------------------------------------------------------------

    def _write(self, op: Op) -> Awaitable[Any]:
        return self._ask(partial(messages.write, op))

    def _ask(
        self, build: Callable[[Chroot], Request], watched: WatchedBy | None = None
    ) -> asyncio.Future[Any]:
        try:
            request = build(self._chroot)
        except BadArguments as failure:
            clear_tracebacks(failure)
            refused = self._tasks.future()
            refused.set_exception(failure)
            return refused
        return self._enqueue(request, watched)

    def _enqueue(self, request: Request, watched: WatchedBy | None) -> asyncio.Future[Any]:
        pending = _Pending(request, self._tasks.future(), watched)
        if self._is_over or self._is_closing:
            _fail(pending, SessionExpired(request.path))
        elif len(self._queue) >= QUEUED_MAX:
            _fail(pending, Overloaded(request.path))
        else:
            self._queue.append(pending)
            self._send_queued()
        return pending.result

    def _send_queued(self) -> None:
        if self._connection is None or self._is_resuming:
            return
        while self._queue and len(self._in_flight) < self._in_flight_max:
            self._send(self._queue.popleft())

    def _send(self, pending: _Pending) -> None:
        assert self._connection is not None
        self._xid = pending.xid = self._xid % 0x7FFF_FFFF + 1
        self._in_flight.append(pending)
        self._connection.send(messages.numbered(pending.xid, pending.request))

    def _on_frame(self, frame: bytes) -> None:
        head = messages.header(frame)
        if head.xid == messages.NOTIFICATION_XID:
            event = messages.event(frame, head.end, self._chroot)
            if event is not None:
                for watch in self._watches.trigger(event):
                    self._tasks.call_soon(watch, event)
        elif head.xid not in (messages.PING_XID, messages.SET_WATCHES_XID):
            self._on_response(head, frame)

    def _on_response(self, head: messages.Header, frame: bytes) -> None:
        if not self._in_flight or self._in_flight[0].xid != head.xid:
            assert self._connection is not None
            self._connection.close(f"its response {head.xid} is to no request")
            return
        pending = self._in_flight.popleft()
        if head.zxid > 0:
            self.last_zxid = max(self.last_zxid, head.zxid)
        _respond(pending, head, frame)
        self._send_queued()

    # -- connections ----------------------------------------------------------------------

    async def _connect_for_life(self) -> None:
        """Keep a connection as long as the session lives."""
        while True:
            addresses = list(self._addresses)
            self._random.shuffle(addresses)
            for address in addresses:
                await self._serve_on(address)
                if self._is_over:
                    return
            await self._tasks.sleep(self._random.uniform(0, RECONNECT_S_MAX))

    async def _serve_on(self, address: tuple[str, int]) -> None:
        """Connect to a server, and go on until that connection is lost."""
        connection = ZooKeeperConnection(self._tasks, self._clock, self._on_frame)
        try:
            await self._serve(connection, address)
        finally:
            connection.close("it is given up")

    async def _serve(self, connection: ZooKeeperConnection, address: tuple[str, int]) -> None:
        name = "{}:{}".format(*address)
        is_new = self.session_id == _NEW_SESSION
        hello = messages.hello(self.last_zxid, self._timeout_ms, self.session_id, self._password)
        within_s = self._timeout_ms / 1000 / len(self._addresses)
        try:
            welcome = await connection.open(self._network, address, hello, within_s=within_s)
        except ConnectFailed as failure:
            self._failed(name, failure)
            return
        if welcome.timeout_ms == 0:
            logger.error("ZooKeeper at %s: the session %#x has expired", name, self.session_id)
            self._end()
            return
        try:
            await self._authenticate(connection, within_s)
        except ConnectFailed as failure:
            self._failed(name, failure)
            return
        except AuthenticationFailed:
            self._refused(name)
            return
        self.session_id, self._password = welcome.session_id, welcome.password
        self._connection = connection
        connection.begin(welcome.timeout_ms)
        logger.info("ZooKeeper: connected to %s, session %#x", name, self.session_id)
        try:
            if is_new:
                if not self.opened.done():
                    self.opened.set_result(None)
                self._send_queued()
            else:
                self._notify(SessionEvent.CONNECTED)
                await self._resume(connection)
            reason = await connection.lost
        finally:
            self._connection = None
        for pending in self._in_flight:
            pending.since_zxid = self.last_zxid
        logger.warning("ZooKeeper at %s: %s", name, reason)
        self._notify(SessionEvent.SUSPENDED)

    def _failed(self, name: str, failure: ConnectFailed) -> None:
        logger.warning("ZooKeeper at %s: %s", name, failure)
        self.last_failure = str(failure)

    async def _authenticate(self, connection: ZooKeeperConnection, within_s: float) -> None:
        if self._login is not None:
            exchange = DigestMd5(*self._login, self._random)
            await connection.authenticate(exchange, within_s=within_s)

    def _refused(self, name: str) -> None:
        """A server does not accept the user and password. At the start this is an error at once;
        later the broker tries again, as the password may be corrected at the server."""
        assert self._login is not None
        text = (
            f"ZooKeeper at {name} does not accept the user {self._login.username}: correct "
            "kavka.zookeeper.sasl.username and kavka.zookeeper.sasl.password"
        )
        logger.error("%s", text)
        if not self.opened.done():
            self.opened.set_exception(ConnectFailed(text, refused=False))

    async def _resume(self, connection: ZooKeeperConnection) -> None:
        """Continue on a new connection: set the watches again, and settle the requests that were in
        flight on the last one."""
        watched = self._watches.paths()
        for frame in messages.set_watches(self.last_zxid, *watched, self._chroot):
            connection.send(frame)
        self._queue.extendleft(reversed(self._in_flight))
        self._in_flight.clear()
        lost = [pending for pending in self._queue if pending.since_zxid is not None]
        self._is_resuming = True
        try:
            await self._settle(connection, lost)
        except CoordinationError as failure:  # the next connection begins again
            self._in_flight.clear()
            connection.close(f"what came of the requests under way is not known: {failure!r}")
            return
        finally:
            self._is_resuming = False
        self._send_queued()

    async def _settle(self, connection: ZooKeeperConnection, lost: Sequence[_Pending]) -> None:
        """Respond to those of the requests that were in flight whose writes were processed, and
        leave the others in the queue, to be sent again. ConnectionLost, and the errors of reads."""
        writes = [pending for pending in lost if pending.request.writes]
        if writes:
            await self._ask_now(connection, messages.sync())
            since_zxid = writes[0].since_zxid  # of all: they were lost with one connection
            assert since_zxid is not None
            sight = self._sight(connection, since_zxid)
            outcomes = await settle([pending.request.writes for pending in writes], sight)
            for pending, outcome in zip(writes, outcomes, strict=True):
                if outcome is not None:
                    self._queue.remove(pending)
                    _conclude(pending, outcome)
        for pending in self._queue:
            pending.since_zxid = None

    def _sight(self, connection: ZooKeeperConnection, since_zxid: int) -> Sight:
        chroot = self._chroot

        async def get(path: str) -> Znode | None:
            try:
                node: Znode = await self._ask_now(
                    connection, messages.get(path, chroot, watch=False)
                )
            except NoNode:
                return None
            return node

        async def children(path: str) -> list[str]:
            try:
                names: list[str] = await self._ask_now(
                    connection, messages.children(path, chroot, watch=False)
                )
            except NoNode:
                return []
            return names

        return Sight(self.session_id, since_zxid, get, children)

    async def _ask_now(self, connection: ZooKeeperConnection, request: Request) -> Any:
        """Send a request ahead of the queued ones. ConnectionLost when this connection ends
        first."""
        pending = _Pending(request, self._tasks.future())

        def on_lost(_: asyncio.Future[str]) -> None:
            _fail(pending, ConnectionLost(request.path))

        if connection.lost.done():
            raise ConnectionLost(request.path)
        connection.lost.add_done_callback(on_lost)
        try:
            self._send(pending)
            return await pending.result
        finally:
            connection.lost.remove_done_callback(on_lost)

    # -- the end --------------------------------------------------------------------------

    def _end(self) -> None:
        """The session has expired: fail all requests."""
        self._is_over = True
        if self._connection is not None:
            self._connection.close("the session has ended")
        waiting = [*self._in_flight, *self._queue]
        in_flight = len(self._in_flight)
        self._in_flight.clear()
        self._queue.clear()
        for number, pending in enumerate(waiting):
            was_sent = number < in_flight or pending.since_zxid is not None
            path = pending.request.path
            _fail(pending, ConnectionLost(path) if was_sent else SessionExpired(path))
        if not self._is_closing:
            self._notify(SessionEvent.EXPIRED)

    def _notify(self, event: SessionEvent) -> None:
        if not self._is_closing:
            for listener in self._listeners:
                self._tasks.call_soon(listener, event)


def _respond(pending: _Pending, head: messages.Header, frame: bytes) -> None:
    """Read a response, and set the watch that its request asked for."""
    request, result = pending.request, pending.result
    value: Any = None
    failure: CoordinationError | None = None
    if head.error == 0:
        try:
            value = request.read(frame, head.end)
        except MultiFailed as failed:
            clear_tracebacks(failed)  # a reference cycle otherwise
            failure = failed
    else:
        failure = messages.error(head.error, request.path)
        if request.missing_is_none and isinstance(failure, NoNode):
            failure = None
    if failure is None and pending.watched is not None:
        pending.watched(value)
    if result.done():
        return  # its caller has gone
    if failure is None:
        result.set_result(value)
    else:
        result.set_exception(failure)


def _conclude(pending: _Pending, outcome: Outcome) -> None:
    """Respond to a write with the result that `lost_writes` has found."""
    if pending.result.done():
        return  # its caller has gone
    if isinstance(outcome, MultiFailed):
        pending.result.set_exception(outcome if pending.request.is_multi else outcome.cause)
    else:
        pending.result.set_result(outcome if pending.request.is_multi else outcome[0])


def _fail(pending: _Pending, failure: CoordinationError) -> None:
    """Fail a request. A caller that has sent several may await only the first one; asyncio would
    log the others as never retrieved."""
    if not pending.result.done():
        pending.result.set_exception(failure)
        pending.result.exception()


async def open_session(
    servers: ZooKeeperServers,
    timeout_s: float,
    in_flight_max: int,
    *,
    network: Network,
    clock: Clock,
    tasks: Tasks,
    random: Random,
    within_s: float,
    login: Login | None = None,
    sets_acls: bool = False,
    advice: str = FOR_BROKERS,
) -> ZooKeeperSession:
    """A session, below a root that exists. ConnectFailed, with the advice, if no server can be
    reached in time (`zookeeper.connection.timeout.ms`)."""
    session = ZooKeeperSession(
        servers,
        timeout_s,
        in_flight_max,
        network=network,
        clock=clock,
        tasks=tasks,
        random=random,
        login=login,
        sets_acls=sets_acls,
    )

    def give_up() -> None:
        if session.opened.done():
            return
        hosts = ", ".join(f"{host}:{port}" for host, port in servers.addresses)
        why = f"{session.last_failure}; " if session.last_failure else ""
        text = f"no ZooKeeper answers at {hosts} within {within_s:g} s: {why}{advice}"
        session.opened.set_exception(ConnectFailed(text, refused=False))

    timer = tasks.call_later(within_s, give_up)
    try:
        await session.opened
        await session.make_root()
    except BaseException:
        session.abandon()
        raise
    finally:
        timer.cancel()
    return session


def opener(
    settings: BrokerSettings, network: Network, random: Random, advice: str = FOR_BROKERS
) -> OpenCoordination:
    """Opens a broker's sessions, with the broker's network and random numbers."""
    security = settings.zookeeper_security
    assert settings.zookeeper_connect is not None and security is not None
    login = None
    if security.username is not None and security.password is not None:
        login = Login(security.username, security.password)
    servers = parse_connect(settings.zookeeper_connect)
    timeout_ms = settings.zookeeper_session_timeout_ms
    within_ms = settings.zookeeper_connection_timeout_ms or timeout_ms

    async def open_coordination(
        fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> Coordination:
        return await open_session(
            servers,
            timeout_ms / 1000,
            settings.zookeeper_max_in_flight_requests,
            network=network,
            clock=clock,
            tasks=tasks,
            random=random,
            within_s=within_ms / 1000,
            login=login,
            sets_acls=security.sets_acls,
            advice=advice,
        )

    return open_coordination
