"""The brokers of a cluster, each by the first way that leads to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kavka.client.broker_client import BrokerClient, ClientSettings, Seams
from kavka.client.errors import UnsupportedVersion
from kavka.tools.admin.cluster_client import MetadataRequest
from kavka.tools.admin.requests import DescribeConfigsRequest, RequestedResource
from kavka.tools.doctor.asks_ports import Port
from kavka.tools.doctor.requests import BROKER_RESOURCE
from kavka.wire.api import Api
from kavka.wire.apis import describe_configs, metadata
from kavka.wire.errors import ErrorCode

NOT_THIS_BROKER: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""What a broker answers who is asked for another's settings."""

KAVKAS: Final = "kavka."
"""Begins the names of settings that Kavka has and Apache Kafka has not."""

ONE_IF_ALONE: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
"""Kavka's broker names the default, 3, also where it works with 1, as it runs without ZooKeeper."""

DEFAULT_SOURCE: Final = 5


class Unanswered(Exception):
    """A question that no broker answers; the message says why."""


class Cluster:
    """Asks brokers, and remembers which can be reached."""

    def __init__(
        self, port: Port, settings: ClientSettings, seams: Seams, *, needs_names: bool
    ) -> None:
        """`port`: of a broker that speaks Kafka's protocol. `needs_names`: TLS or a login have to
        know the name of a host, so that its address does not do."""
        self.seams = seams
        self._settings = settings
        self._needs_names = needs_names
        self._clients: list[BrokerClient] = []
        self.first: Final = self.client(port)
        self.ways: dict[int, BrokerClient] = {}
        """The brokers that can be asked."""
        self.metadata: metadata.MetadataResponse = metadata.MetadataResponse()
        self.configs: dict[int, Mapping[str, str | None]] = {}
        """The settings of brokers, where they tell them."""

    async def open(self) -> None:
        """Ask the first broker for the others, and for all topics. Unanswered."""
        self.metadata = await ask_client(self.first, metadata.API, MetadataRequest(None))

    def client(self, port: Port) -> BrokerClient:
        """A client of a port, closed with the others."""
        host = port.host if self._needs_names else port.target
        made = BrokerClient(host, port.port, self._settings, self.seams)
        self._clients.append(made)
        return made

    async def ask(self, broker_id: int, api: Api, request: Any) -> Any:
        """A broker's answer. Unanswered."""
        client = self.ways.get(broker_id)
        if client is None:
            raise Unanswered(f"broker {broker_id} can't be reached")
        return await ask_client(client, api, request)

    async def ask_any(self, api: Api, request: Any) -> Any:
        """The first broker's answer. Unanswered."""
        return await ask_client(self.first, api, request)

    async def ask_all(self, api: Api, request: Any) -> Mapping[int, Any]:
        """The answers of all brokers that can be reached; Unanswered if one does not serve it."""
        ids = sorted(self.ways)
        answers = await asyncio.gather(*(self.ask(broker_id, api, request) for broker_id in ids))
        return dict(zip(ids, answers, strict=True))

    def is_whole(self) -> bool:
        """Whether every live broker can be asked."""
        return all(broker.node_id in self.ways for broker in self.metadata.brokers)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            client.close()


async def ask_client(client: BrokerClient, api: Api, request: Any) -> Any:
    """The answer of one broker. Unanswered."""
    try:
        return await client.ask(api, request)
    except (OSError, UnsupportedVersion) as failure:
        raise Unanswered(str(failure)) from failure


async def settings_of(client: BrokerClient, broker_id: int) -> Mapping[str, str | None] | None:
    """The settings of a broker, asked through a client that should lead to it; None if another
    broker answers, {} if this one does not tell. Unanswered."""
    request = DescribeConfigsRequest([RequestedResource(BROKER_RESOURCE, str(broker_id))])
    response = await ask_client(client, describe_configs.API, request)
    (found,) = response.results
    if found.error_code in NOT_THIS_BROKER:
        return None
    is_kavka = any(config.name.startswith(KAVKAS) for config in found.configs)
    return {
        config.name: config.value
        for config in found.configs
        if not (is_kavka and config.name in ONE_IF_ALONE and config.config_source == DEFAULT_SOURCE)
    }


async def configs_of(
    cluster: Cluster, resource_type: int, names: Sequence[str]
) -> Mapping[str, Mapping[str, str | None]]:
    """The settings of topics; those that can't be read are left out. Unanswered."""
    if not names:
        return {}
    request = DescribeConfigsRequest([RequestedResource(resource_type, name) for name in names])
    response = await cluster.ask_any(describe_configs.API, request)
    return {
        found.resource_name: {config.name: config.value for config in found.configs}
        for found in response.results
        if not found.error_code
    }
