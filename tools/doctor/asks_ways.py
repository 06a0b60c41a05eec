"""Goes to the advertised address of each broker, as a client would after its first request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from kavka.tools.admin.cluster_client import MetadataRequest
from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.advertised import Way
from kavka.tools.doctor.asks_ports import Connected, Port, Resolved, connect, listen, resolve
from kavka.tools.doctor.asks_tls import Trust, look_at
from kavka.tools.doctor.certificates import Secured
from kavka.tools.doctor.cluster import Cluster, Unanswered, ask_client, settings_of
from kavka.tools.doctor.port_protocol import PortProtocol, Reply
from kavka.wire.apis import metadata


class Start(NamedTuple):
    """Where the client began."""

    port: Port
    addresses: Sequence[str]
    trust: Trust | None
    """None without TLS."""


class Gone(NamedTuple):
    """What came of going to an advertised address."""

    way: Way
    secured: Secured | None = None
    """With TLS."""
    served: port_protocol.Heard | None = None
    """The answer to ApiVersions, without TLS."""


async def go_to_all(cluster: Cluster, start: Start) -> Sequence[Gone]:
    """Go to all brokers of the metadata; the cluster then knows a way to those that answer."""
    brokers = sorted(cluster.metadata.brokers, key=lambda broker: broker.node_id)
    return await asyncio.gather(*(_go(cluster, broker, start) for broker in brokers))


async def _go(cluster: Cluster, broker: metadata.BrokerResponse, start: Start) -> Gone:
    port = Port(broker.host, broker.port, start.port.within_s)
    way = Way(
        broker.node_id,
        broker.host,
        broker.port,
        await resolve(broker.host, port.within_s),
        expects_tls=start.trust is not None,
        asked_from=start.addresses,
    )
    tried = await reach(way.resolved, port, cluster)
    port = port.answers_at(tried)
    reply, secured = None, None
    if any(not attempt.failure for attempt in tried):
        try:
            if start.trust is None:
                reply = await listen(port)
            else:
                secured = await look_at(port, start.trust)
                reply = Reply(PortProtocol.TLS if secured.protocol else PortProtocol.OTHER, b"")
        except OSError:
            reply = Reply(PortProtocol.CLOSES, b"")
    way = way._replace(tried=tried, reply=reply)
    if way.is_reached:
        way = await _ask(cluster, way, port)
    if not way.works:
        way = await _ask_first(cluster, way, start.port)
    heard = port_protocol.Heard(reply.data) if reply is not None and start.trust is None else None
    return Gone(way, secured, heard)


async def reach(resolved: Resolved, port: Port, cluster: Cluster) -> Sequence[Connected]:
    """Try all addresses of a host."""
    clock = cluster.seams.clock
    return await asyncio.gather(*(connect(address, port, clock) for address in resolved.addresses))


async def _ask(cluster: Cluster, way: Way, port: Port) -> Way:
    """Who answers there; if it is that broker, the cluster knows this way to it."""
    client = cluster.client(port)
    try:
        answer = await ask_client(client, metadata.API, MetadataRequest([]))
        if answer.cluster_id != cluster.metadata.cluster_id:
            return way._replace(cluster_id=answer.cluster_id, is_this_broker=False)
        config = await settings_of(client, way.broker_id)
    except Unanswered as failure:
        return way._replace(failure=str(failure))
    if config is None:
        return way._replace(is_this_broker=False)
    cluster.ways[way.broker_id] = client
    cluster.configs[way.broker_id] = config
    return way._replace(is_this_broker=True, config=config)


async def _ask_first(cluster: Cluster, way: Way, first: Port) -> Way:
    """Perhaps the bootstrap address leads to it."""
    try:
        config = await settings_of(cluster.first, way.broker_id)
    except Unanswered:
        return way
    if config is None:
        return way
    cluster.ways[way.broker_id] = cluster.first
    cluster.configs[way.broker_id] = config
    return way._replace(config=config, better=str(first))
