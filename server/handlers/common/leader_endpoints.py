"""Where the leaders are that a response names: a client need not ask for Metadata (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.wire.apis.produce import NodeEndpoint


def leader_endpoints(
    broker: Broker, context: RequestContext, leaders: Iterable[int]
) -> list[NodeEndpoint]:
    """Endpoints of these brokers, as far as the client can reach them."""
    brokers = broker.metadata.image.brokers
    return [
        NodeEndpoint(known.broker_id, *address, known.rack)
        for known in (brokers[leader] for leader in leaders if leader in brokers)
        if (address := broker.address_of(known, context.peer)) is not None
    ]
