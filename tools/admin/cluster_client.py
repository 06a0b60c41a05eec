"""Requests to a cluster: to any broker, to the controller, to one by its id."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.client.errors import Disconnected, NotLetIn, TimedOut, UnsupportedVersion
from kavka.tools.admin.errors import Failed
from kavka.wire.api import Api
from kavka.wire.apis import describe_cluster, metadata
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

RETRIES_MAX: Final = 20
"""How often the controller is sought again; with a client's back-offs, about a minute."""

RETRY_S: Final = 0.2
RETRY_S_MAX: Final = 5.0

WANTS_MORE: Final = " (does it want TLS or a login? `kavka doctor` tells)"
WANTS_CERTIFICATE: Final = " (the client needs a certificate that it trusts: ssl.keystore.location)"


@message
class RequestedTopic:
    name: str | None
    topic_id: Any = None


@message
class MetadataRequest:
    """`topics`: all if None."""

    topics: Sequence[RequestedTopic] | None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@message
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = describe_cluster.ENDPOINT_BROKERS
    include_fenced_brokers: bool = False


SERVER: Final = "bootstrap-server"
CONTROLLER: Final = "bootstrap-controller"
"""The options that say where to connect to first."""


Waits = Callable[[], AbstractContextManager[None]]


class ClusterClient:
    """Knows the cluster's brokers once `open` has returned; or its controllers, where it connects
    to these (KIP-919)."""

    def __init__(
        self,
        bootstrap: str,
        settings: ClientSettings,
        seams: Seams,
        *,
        option: str = SERVER,
        waits: Waits = nullcontext,
    ) -> None:
        """`bootstrap`: HOST:PORT, several with commas between, the value of `option`. `waits`
        gives what is entered while it waits for brokers. Failed if `bootstrap` is nothing like
        it."""
        self._option = option
        self._waits = waits
        self._addresses = addresses_of(bootstrap, option)
        self.seams = seams
        self._settings = settings
        self._clients: dict[tuple[str, int], BrokerClient] = {}
        self._brokers: dict[int, metadata.BrokerResponse] = {}
        self._controller_id = -1
        self.cluster_id = ""
        self.random: Final = seams.random

    @property
    def request_timeout_ms(self) -> int:
        """What `request.timeout.ms` says."""
        return round(self._settings.request_timeout_s * 1000)

    @property
    def brokers(self) -> Sequence[metadata.BrokerResponse]:
        """The live ones."""
        return list(self._brokers.values())

    @property
    def of_controllers(self) -> bool:
        """Whether its brokers are KRaft controllers."""
        return self._option == CONTROLLER

    def describing(self, *, with_fenced: bool = False) -> DescribeClusterRequest:
        """A request for the addresses of all its brokers."""
        kind = describe_cluster.ENDPOINT_BROKERS
        if self.of_controllers:
            kind = describe_cluster.ENDPOINT_CONTROLLERS
        return DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=with_fenced)

    async def open(self) -> None:
        """Find a broker that answers, and ask it for the others. Failed if none does."""
        with self._waits():
            await self._open()

    async def _open(self) -> None:
        reasons = []
        for address in self._addresses:
            try:
                await self._learn(self._client(address))
            except NotLetIn as failure:
                raise Failed(str(failure)) from failure
            except Disconnected as failure:
                reasons.append(f"{failure}{_hint(failure)}")
            except (ConnectionError, UnsupportedVersion) as failure:
                reasons.append(str(failure))
            else:
                return
        raise Failed(f"no broker answers: {'; '.join(reasons)}. Is --{self._option} right?")

    async def topics(self, *, with_internal: bool = True) -> list[metadata.TopicResponse]:
        """All topics with their partitions, by name. Failed."""
        response = await self.ask(metadata.API, MetadataRequest(None))
        found = [topic for topic in response.topics if with_internal or not topic.is_internal]
        return sorted(found, key=lambda topic: topic.name)

    async def topics_named(self, names: Iterable[str]) -> dict[str, metadata.TopicResponse]:
        """Topics by their names, with an error code where there is no such topic. Failed."""
        requested = [RequestedTopic(name) for name in dict.fromkeys(names)]
        if not requested:
            return {}
        response = await self.ask(metadata.API, MetadataRequest(requested))
        self._note(response, response.brokers)
        return {topic.name or "": topic for topic in response.topics}

    async def ask(self, api: Api, request: Any) -> Any:
        """Any broker's response, or the active controller's where it connects to these. Failed."""
        return await self._ask(self._any, api, request)

    async def ask_broker(self, broker_id: int, api: Api, request: Any) -> Any:
        """One broker's response. Failed."""
        return await self._ask(lambda: broker_id, api, request)

    async def ask_at(self, host: str, port: int, api: Api, request: Any) -> Any:
        """The response of a broker at an address that another one has named. Failed."""
        return await _or_failed(lambda: self._client((host, port)).ask(api, request))

    async def attempts(self, within_s: float) -> AsyncIterator[None]:
        """Each time that something may be tried: at once, then after longer and longer pauses, the
        last time when the time is over."""
        clock, tasks = self.seams.clock, self.seams.tasks
        end_s = clock.monotonic_s() + within_s
        for attempt in itertools.count():
            yield
            left_s = end_s - clock.monotonic_s()
            if left_s <= 0:
                return
            await tasks.sleep(min(_pause_s(attempt), left_s))

    def now_ms(self) -> int:
        """What time it is here."""
        return self.seams.clock.now_ms()

    async def ask_controller(
        self, api: Api, request: Any, error_codes: Callable[[Any], Sequence[int]]
    ) -> Any:
        """The controller's response; another broker's is asked again, when the controller is known.

        `error_codes` reads those of a response. Failed.
        """
        with self._waits():
            for attempt in range(RETRIES_MAX):
                if attempt:
                    await self.seams.tasks.sleep(_pause_s(attempt))
                    await self._refresh()
                response = await self._ask(self._controller, api, request)
                if ErrorCode.NOT_CONTROLLER not in error_codes(response):
                    return response
        raise Failed("no broker says that it is the controller: see the brokers' logs")

    async def serves(self, api: Api, since: int = 0) -> bool:
        """Whether the broker that `ask` asks knows an API, in a version from `since` on. Failed."""
        known = await self._version_of(api)
        return known is not None and known >= since

    async def version_of(self, api: Api) -> int:
        """The version in which `ask` asks. Failed."""
        version = await self._version_of(api)
        if version is None:
            raise Failed(f"the broker does not serve {api.name}")
        return version

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    async def _version_of(self, api: Api) -> int | None:
        client = self._by_id(self._any())
        await _or_failed(client.connection)
        try:
            return client.version_of(api)
        except UnsupportedVersion:
            return None

    def _any(self) -> int:
        return self._controller() if self.of_controllers else next(iter(self._brokers))

    def _controller(self) -> int:
        if self._controller_id in self._brokers:
            return self._controller_id
        return next(iter(self._brokers))

    async def _ask(self, broker_id: Callable[[], int], api: Api, request: Any) -> Any:
        with self._waits():
            return await _or_failed(lambda: self._by_id(broker_id()).ask(api, request))

    async def _refresh(self) -> None:
        client = self._by_id(self._any())
        await _or_failed(lambda: self._learn(client))

    async def _learn(self, client: BrokerClient) -> None:
        if self.of_controllers:
            response = await client.ask(describe_cluster.API, self.describing())
            if response.error_code:
                why = response.error_message or ErrorCode(response.error_code).name
                raise Failed(f"{client.address} knows no controllers: {why}")
            brokers = [
                metadata.BrokerResponse(broker.broker_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            ]
        else:
            response = await client.ask(metadata.API, MetadataRequest([]))
            brokers = response.brokers
        self._note(response, brokers)

    def _note(self, response: Any, brokers: Iterable[metadata.BrokerResponse]) -> None:
        found = {broker.node_id: broker for broker in brokers}
        if not found:  # those of before are asked again
            raise Failed("the broker knows of no broker yet: is it still starting?")
        self._brokers = found
        self._controller_id = response.controller_id
        self.cluster_id = response.cluster_id or ""

    def _by_id(self, broker_id: int) -> BrokerClient:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise Failed(f"no broker {broker_id} is live")
        return self._client((broker.host, broker.port))

    def _client(self, address: tuple[str, int]) -> BrokerClient:
        if address not in self._clients:
            self._clients[address] = BrokerClient(*address, self._settings, self.seams)
        return self._clients[address]


def check_answer(error_code: int, error_message: str | None = None) -> None:
    """Failed, with the broker's own words if it has any, unless it says that all went well."""
    if error_code == ErrorCode.NONE:
        return
    known = error_code in ErrorCode.__members__.values()
    name = ErrorCode(error_code).name if known else f"error {error_code}"
    raise Failed(f"{name}: {error_message}" if error_message else f"the broker answers {name}")


async def _or_failed(ask: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await ask()
    except (ConnectionError, UnsupportedVersion) as failure:
        raise Failed(str(failure)) from failure


def _hint(failure: Disconnected) -> str:
    """What may be wrong if a broker hangs up at the first request."""
    if isinstance(failure, TimedOut):
        return ""
    return WANTS_CERTIFICATE if "certificate" in str(failure) else WANTS_MORE


def _pause_s(attempt: int) -> float:
    return min(RETRY_S * 2.0 ** min(attempt, RETRIES_MAX), RETRY_S_MAX)


def _is_host(text: str) -> bool:
    try:
        return text.encode("idna") != b""
    except UnicodeError:  # a name without a part between two dots, or one too long
        return False


def addresses_of(bootstrap: str, option: str = SERVER) -> list[tuple[str, int]]:
    """The addresses in the value of --bootstrap-server. Failed if one is nothing like it."""
    found = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        host = host.strip("[]")
        if not _is_host(host) or not port.isdecimal() or not 0 < int(port[:9]) < 65536:
            raise Failed(f"--{option}: {address.strip()!r} is not HOST:PORT")
        found.append((host, int(port)))
    return found
