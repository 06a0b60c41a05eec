"""DescribeQuorum: Kavka's controller, described as a KRaft metadata quorum.

Promises: the quorum of `__cluster_metadata`, partition 0, has one voter, the active controller,
which leads it in its controller epoch. Its log is the coordination service's: log end offset and
high watermark are one more than the newest durable transaction's number. The voter has no
directory id (a quorum of static voters has none in Apache Kafka either), and its endpoint is the
inter-broker listener, since Kavka's controller has no listener of its own.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.wire.apis.describe_quorum import (
    UNKNOWN_TIMESTAMP,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResponse,
    ReplicaState,
    TopicResponse,
    error_response,
)
from kavka.wire.errors import ErrorCode

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0

_TIMES_SINCE: Final = 1
_NODES_SINCE: Final = 2
_NOT_HERE: Final = "This server does not host this topic-partition."


def handle(broker: Broker, context: RequestContext, request: Any) -> DescribeQuorumResponse:
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context.version)
    if not _asks_for_metadata(request):
        return _unknown(request)
    if not broker.controller.is_active:
        return error_response(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, context.version)
    end = broker.coordination.last_zxid + 1
    now_ms = broker.clock.now_ms() if context.version >= _TIMES_SINCE else UNKNOWN_TIMESTAMP
    leader = ReplicaState(
        broker.broker_id,
        end,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = PartitionResponse(
        METADATA_PARTITION,
        leader_id=broker.broker_id,
        leader_epoch=broker.controller.epoch,
        high_watermark=end,
        current_voters=[leader],
    )
    return DescribeQuorumResponse(
        topics=[TopicResponse(METADATA_TOPIC, [partition])],
        nodes=_nodes(broker, context) if context.version >= _NODES_SINCE else (),
    )


def _asks_for_metadata(request: Any) -> bool:
    """Whether the request names exactly the metadata partition."""
    requested = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return len(request.topics) == 1 and requested == [(METADATA_TOPIC, METADATA_PARTITION)]


def _unknown(request: Any) -> DescribeQuorumResponse:
    """An error for every partition of a request that names anything else."""
    return DescribeQuorumResponse(
        topics=[
            TopicResponse(
                topic.topic_name,
                [
                    PartitionResponse(
                        partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _nodes(broker: Broker, context: RequestContext) -> list[Node]:
    """The voter, at its listener for other brokers."""
    name = broker.settings.inter_broker_listener_name
    known = broker.metadata.image.brokers[broker.broker_id]
    came_by_it = context.peer.listener == name
    address = broker.address_of(known, context.peer) if came_by_it else known.endpoints.get(name)
    assert address is not None, "every broker has the inter-broker listener"
    return [Node(broker.broker_id, [Listener(name, *address)])]
