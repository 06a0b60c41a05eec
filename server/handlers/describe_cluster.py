"""DescribeCluster: id, controller and brokers (KIP-700).

Promises: the endpoints of the listener that received the request, and no controller if it is not
reachable on that listener. A broker that is down is not registered, so there are no fenced brokers
to include (KIP-1073). A request for controllers gets MISMATCHED_ENDPOINT_TYPE, as from every broker
of Apache Kafka (KIP-919).
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.allowed_operations import CLUSTER_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import NO_CONTROLLER
from kavka.server.request.context import RequestContext
from kavka.wire.apis.describe_cluster import (
    ENDPOINT_BROKERS,
    BrokerResponse,
    DescribeClusterResponse,
)
from kavka.wire.apis.metadata import OPERATIONS_NOT_REQUESTED
from kavka.wire.errors import ErrorCode

_ENDPOINT_CONTROLLERS = 2


def handle(broker: Broker, context: RequestContext, request: Any) -> DescribeClusterResponse:
    endpoint_type = request.endpoint_type
    if context.version >= 1 and endpoint_type != ENDPOINT_BROKERS:
        return _wrong_endpoint_type(endpoint_type)
    image = broker.metadata.image
    operations = OPERATIONS_NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = 0
        if broker.authorizer.allows(
            context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            operations = allowed_bits(
                broker.authorizer, context, ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
            )
    brokers = [
        BrokerResponse(known.broker_id, *address, known.rack)
        for known in image.brokers.values()
        if (address := broker.address_of(known, context.peer)) is not None
    ]
    reachable = any(node.broker_id == image.controller_id for node in brokers)
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if reachable else NO_CONTROLLER,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )


def _wrong_endpoint_type(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _ENDPOINT_CONTROLLERS:
        return DescribeClusterResponse(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
            endpoint_type=ENDPOINT_BROKERS,
        )
    return DescribeClusterResponse(
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        f"Unsupported endpoint type {endpoint_type}",
        endpoint_type=ENDPOINT_BROKERS,
    )
