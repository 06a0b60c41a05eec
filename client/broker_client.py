"""A client of one broker: connects when there is something to ask, again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kavka.client.connection import Connection
from kavka.client.dialling import dial
from kavka.client.errors import Disconnected, NotConnected
from kavka.client.versions import Versions, ask_versions
from kavka.seams import Clock, Network, Random, Tasks
from kavka.wire.api import Api
from kavka.wire.frame import ArenaPool

if TYPE_CHECKING:
    from kavka.client.login import Login

DOUBLED_MAX: Final = 20
"""How many times a back-off is doubled at most: far more than its maximum allows."""

BACKOFF_JITTER: Final = 0.2
"""Share by which a back-off is longer or shorter, so that clients of a broker that comes back do
not all connect at once (KIP-144)."""


@dataclass(frozen=True)
class Seams:
    """The seams and buffers that connections use."""

    network: Network
    clock: Clock
    tasks: Tasks
    random: Random
    arenas: ArenaPool


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Names and times for requests. The defaults are those of Apache Kafka's clients."""

    client_id: str
    software_version: str
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    backoff_s: float = 0.05
    backoff_max_s: float = 1.0
    login: Login | None = None
    """By SASL, on each connection."""


class BrokerClient:
    """Requests to one broker, over one connection at a time.

    No request is repeated: only the caller knows whether that is safe. After a failed attempt to
    connect, the next one waits for a back-off, which doubles up to its maximum.
    """

    def __init__(self, host: str, port: int, settings: ClientSettings, seams: Seams) -> None:
        self.address: Final = f"{host}:{port}"
        self._host = host
        self._port = port
        self._settings = settings
        self._seams = seams
        self._connection: Connection | None = None
        self._versions: Versions | None = None
        self._attempt: asyncio.Task[Connection | ConnectionError] | None = None
        self._failed_attempts = 0
        self._next_attempt_s = 0.0
        self._is_closed = False

    async def ask(
        self,
        api: Api,
        request: Any,
        *,
        timeout_s: float | None = None,
        take: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The response to a request, in the highest version that both know; it owns its bytes,
        unless `take` is called with it: see `Connection.ask`.

        `timeout_s` is for the response alone; `request_timeout_s` if None. ConnectFailed if the
        broker can't be reached, NotLetIn if it refuses the client, Disconnected if the connection
        ends before the response, UnsupportedVersion if there is no version in common.
        """
        connection = await self.connection()
        version = self.version_of(api)
        limit_s = self._settings.request_timeout_s if timeout_s is None else timeout_s
        return await connection.ask(api, version, request, timeout_s=limit_s, take=take)

    async def connection(self) -> Connection:
        """An open connection, whose broker's versions are known. ConnectFailed if it can't be
        opened, Disconnected if it ends before the versions are known."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._is_closed:
            raise NotConnected(f"the client of {self.address} was closed")
        if self._attempt is None:
            name = f"connect to {self.address}"
            self._attempt = self._seams.tasks.spawn(self._connect(), name=name)
        attempt = self._attempt
        try:
            # A caller that is cancelled does not take the attempt away from the others.
            outcome = await asyncio.shield(attempt)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not attempt.cancelled() or (caller is not None and caller.cancelling()):
                raise  # it is the caller's own, perhaps at the same time
            outcome = NotConnected(f"the client of {self.address} was closed")
        if isinstance(outcome, ConnectionError):
            raise outcome
        return outcome

    def version_of(self, api: Api) -> int:
        """The version of an API that requests to the connected broker use. UnsupportedVersion."""
        assert self._versions is not None, "known since the first connection"
        return self._versions.highest_common(api)

    def close(self) -> None:
        """Close the connection for good; requests in flight fail."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> Connection | ConnectionError:
        """One attempt, after the back-off: the open connection, or why there is none."""
        seams = self._seams
        try:
            await seams.tasks.sleep(self._next_attempt_s - seams.clock.monotonic_s())
            self._connection = await self._open()
        except (NotConnected, Disconnected) as failure:
            self._failed_attempts += 1
            self._next_attempt_s = seams.clock.monotonic_s() + self._backoff_s()
            return failure
        finally:
            self._attempt = None
        self._failed_attempts = 0
        return self._connection

    async def _open(self) -> Connection:
        seams, settings = self._seams, self._settings
        connection = Connection(
            seams.clock,
            seams.tasks,
            seams.arenas,
            address=self.address,
            client_id=settings.client_id,
        )
        try:
            await dial(
                seams.network,
                seams.tasks,
                (self._host, self._port),
                connection,
                within_s=settings.connect_timeout_s,
            )
            self._versions = await ask_versions(
                connection, settings.software_version, settings.request_timeout_s
            )
            if settings.login is not None:
                from kavka.client.login import LogsIn  # brokers do without

                login = LogsIn(connection, self._versions, settings.request_timeout_s)
                await login.log_in(settings.login, seams.random)
        except BaseException:
            connection.close()
            raise
        return connection

    def _backoff_s(self) -> float:
        settings, jitter = self._settings, BACKOFF_JITTER
        doubled = 2.0 ** min(self._failed_attempts - 1, DOUBLED_MAX)
        spread = self._seams.random.uniform(1 - jitter, 1 + jitter)
        return min(settings.backoff_s * doubled, settings.backoff_max_s) * spread
