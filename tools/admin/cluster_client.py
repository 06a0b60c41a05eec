"""Requests to a cluster: to any broker, to the controller, to one by its id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.client.errors import UnsupportedVersion
from kavka.tools.admin.errors import Failed
from kavka.wire.api import Api
from kavka.wire.apis import metadata
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

RETRIES_MAX: Final = 20
"""How often the controller is sought again; with a client's back-offs, about a minute."""

RETRY_S: Final = 0.2
RETRY_S_MAX: Final = 5.0


@message
class AskedTopic:
    name: str | None
    topic_id: Any = None


@message
class MetadataRequest:
    """`topics`: all if None."""

    topics: Sequence[AskedTopic] | None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class ClusterClient:
    """Knows the cluster's brokers once `open` has returned."""

    def __init__(self, bootstrap: str, settings: ClientSettings, seams: Seams) -> None:
        """`bootstrap`: HOST:PORT, several with commas between. Failed if it is nothing like it."""
        self._addresses = _addresses(bootstrap)
        self._settings = settings
        self._seams = seams
        self._clients: dict[tuple[str, int], BrokerClient] = {}
        self._brokers: dict[int, metadata.BrokerResponse] = {}
        self._controller_id = -1
        self.cluster_id = ""

    @property
    def brokers(self) -> Sequence[metadata.BrokerResponse]:
        """The live ones."""
        return list(self._brokers.values())

    async def open(self) -> None:
        """Find a broker that answers, and ask it for the others. Failed if none does."""
        reasons = []
        for address in self._addresses:
            try:
                found = await self._client(address).ask(metadata.API, MetadataRequest([]))
                self._learn(found)
            except (ConnectionError, UnsupportedVersion) as failure:
                reasons.append(str(failure))
            else:
                return
        raise Failed(f"no broker answers: {'; '.join(reasons)}. Is --bootstrap-server right?")

    async def topics(self, *, with_internal: bool = True) -> list[metadata.TopicResponse]:
        """All topics with their partitions, by name. Failed."""
        response = await self.ask(metadata.API, MetadataRequest(None))
        found = [topic for topic in response.topics if with_internal or not topic.is_internal]
        return sorted(found, key=lambda topic: topic.name)

    async def ask(self, api: Api, request: Any) -> Any:
        """Any broker's response. Failed."""
        return await self._ask(lambda: next(iter(self._brokers)), api, request)

    async def ask_broker(self, broker_id: int, api: Api, request: Any) -> Any:
        """One broker's response. Failed."""
        return await self._ask(lambda: broker_id, api, request)

    async def ask_controller(
        self, api: Api, request: Any, error_codes: Callable[[Any], Sequence[int]]
    ) -> Any:
        """The controller's response; another broker's is asked again, when the controller is known.

        `error_codes` reads those of a response. Failed.
        """
        for attempt in range(RETRIES_MAX):
            if attempt:
                await self._seams.tasks.sleep(min(RETRY_S * 2**attempt, RETRY_S_MAX))
                await self._refresh()
            response = await self._ask(self._controller, api, request)
            if ErrorCode.NOT_CONTROLLER not in error_codes(response):
                return response
        raise Failed("no broker says that it is the controller: see the brokers' logs")

    async def serves(self, api: Api) -> bool:
        """Whether the broker that `ask` asks knows an API. Failed."""
        client = self._by_id(next(iter(self._brokers)))
        await _or_failed(client.connection)
        try:
            client.version_of(api)
        except UnsupportedVersion:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _controller(self) -> int:
        if self._controller_id in self._brokers:
            return self._controller_id
        return next(iter(self._brokers))

    async def _ask(self, broker_id: Callable[[], int], api: Api, request: Any) -> Any:
        return await _or_failed(lambda: self._by_id(broker_id()).ask(api, request))

    async def _refresh(self) -> None:
        self._learn(await self.ask(metadata.API, MetadataRequest([])))

    def _learn(self, response: metadata.MetadataResponse) -> None:
        self._brokers = {one.node_id: one for one in response.brokers}
        self._controller_id = response.controller_id
        self.cluster_id = response.cluster_id or ""
        if not self._brokers:
            raise Failed("the broker knows of no broker yet: is it still starting?")

    def _by_id(self, broker_id: int) -> BrokerClient:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise Failed(f"no broker {broker_id} is live")
        return self._client((broker.host, broker.port))

    def _client(self, address: tuple[str, int]) -> BrokerClient:
        if address not in self._clients:
            self._clients[address] = BrokerClient(*address, self._settings, self._seams)
        return self._clients[address]


async def _or_failed(ask: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await ask()
    except (ConnectionError, UnsupportedVersion) as failure:
        raise Failed(str(failure)) from failure


def _addresses(bootstrap: str) -> list[tuple[str, int]]:
    found = []
    for one in bootstrap.split(","):
        host, _, port = one.strip().rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise Failed(f"--bootstrap-server: {one.strip()!r} is not HOST:PORT")
        found.append((host, int(port)))
    return found
