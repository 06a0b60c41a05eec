"""Metadata: brokers, topics, partitions and their leaders, out of the current image.

Promises: topics by name or, from version 12, by id; creates missing topics where the client and
`auto.create.topics.enable` allow it. Unlike Apache Kafka, which answers UNKNOWN_TOPIC_OR_PARTITION
at first and lets the client ask again, the answer waits for the creation, which takes
milliseconds here. Who asks while another's question makes the topic is answered as by Kafka.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.controller.new_topics import NewTopic, check_topic_name
from kavka.server.metadata_cache import PartitionImage, TopicImage
from kavka.server.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, allowed_bits
from kavka.server.topics import GROUP_TOPIC, INTERNAL_TOPICS, TRANSACTION_TOPIC
from kavka.wire.apis.metadata import (
    OPERATIONS_NOT_ASKED,
    BrokerResponse,
    MetadataResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_IDS_ASKED_SINCE: Final = 12
_LISTENER_NOT_FOUND_SINCE: Final = 6
_CLUSTER_OPERATIONS: Final = range(8, 11)
_AUTO_CREATE_TIMEOUT_MS: Final = 15_000
_COORDINATED: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})
"""Topics that their coordinator makes."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    everything = request.topics is None or (context.version == 0 and not request.topics)
    if everything:
        return _answer(broker, context, request, _all(broker, context, request))
    _check_names(context, request)
    if any(topic.topic_id is not None for topic in request.topics):
        return _answer(broker, context, request, _by_id(broker, context, request))
    missing = _to_create(broker, context, request)
    if missing:
        return _after_creation(broker, context, request, missing)
    return _answer(broker, context, request, _by_name(broker, context, request, {}))


def _all(broker: Broker, context: RequestContext, request: Any) -> list[TopicResponse]:
    """Every topic that the client may know of."""
    return [
        _of(broker, context, topic, request)
        for name, topic in broker.metadata.image.topics.items()
        if _may_describe(broker, context, name)
    ]


def _check_names(context: RequestContext, request: Any) -> None:
    for topic in request.topics:
        unusual = topic.name is None or topic.topic_id is not None
        if unusual and context.version < _IDS_ASKED_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if topic.name is None and topic.topic_id is None:  # Apache Kafka does not expect it
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a topic without name and id")


def _answer(
    broker: Broker, context: RequestContext, request: Any, topics: list[TopicResponse]
) -> MetadataResponse:
    image = broker.metadata.image
    return MetadataResponse(
        brokers=[
            BrokerResponse(known.broker_id, *address, known.rack)
            for known in image.brokers.values()
            if (address := broker.address_of(known, context.peer)) is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=_cluster_operations(broker, context, request),
    )


def _cluster_operations(broker: Broker, context: RequestContext, request: Any) -> int:
    if context.version not in _CLUSTER_OPERATIONS:
        return OPERATIONS_NOT_ASKED
    if not request.include_cluster_authorized_operations:
        return OPERATIONS_NOT_ASKED
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return 0
    return allowed_bits(broker, context, ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)


# -- topics -------------------------------------------------------------------------------


def _by_id(broker: Broker, context: RequestContext, request: Any) -> list[TopicResponse]:
    image = broker.metadata.image
    answers: list[TopicResponse] = []
    asked = {topic.topic_id: None for topic in request.topics if topic.topic_id is not None}
    for topic_id in asked:
        name = image.names_by_id.get(topic_id)
        if name is None:
            answers.append(TopicResponse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif _may_describe(broker, context, name):
            answers.append(_of(broker, context, image.topics[name], request))
        else:
            answers.append(TopicResponse(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return answers


def _by_name(
    broker: Broker, context: RequestContext, request: Any, refused: dict[str, ErrorCode]
) -> list[TopicResponse]:
    image = broker.metadata.image
    answers: list[TopicResponse] = []
    for name in {topic.name: None for topic in request.topics}:
        known = image.topics.get(name)
        if not _may_describe(broker, context, name):
            answers.append(TopicResponse(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif known is not None:
            answers.append(_of(broker, context, known, request))
        else:
            code, operations = (
                _why_missing(name, refused),
                _operations(broker, context, name, request),
            )
            answers.append(TopicResponse(name, None, code, _internal(name), (), operations))
    return answers


def _why_missing(name: str, refused: dict[str, ErrorCode]) -> ErrorCode:
    if name in refused:
        return refused[name]
    if not _is_valid(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def _may_describe(broker: Broker, context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def _of(broker: Broker, context: RequestContext, topic: TopicImage, request: Any) -> TopicResponse:
    return TopicResponse(
        topic.name,
        topic.topic_id,
        0,
        _internal(topic.name),
        [_partition(broker, context, partition) for partition in topic.partitions],
        _operations(broker, context, topic.name, request),
    )


def _operations(broker: Broker, context: RequestContext, name: str, request: Any) -> int:
    """What the client may do with a topic, be it there or not; only if it asks."""
    if not request.include_topic_authorized_operations:
        return OPERATIONS_NOT_ASKED
    return allowed_bits(broker, context, ResourceType.TOPIC, name, TOPIC_OPERATIONS)


def _partition(
    broker: Broker, context: RequestContext, partition: PartitionImage
) -> PartitionResponse:
    brokers = broker.metadata.image.brokers
    leader = brokers.get(partition.leader)
    code = ErrorCode.NONE
    if leader is None:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif context.peer.listener not in leader.endpoints:
        newer = context.version >= _LISTENER_NOT_FOUND_SINCE
        code = ErrorCode.LISTENER_NOT_FOUND if newer else ErrorCode.LEADER_NOT_AVAILABLE
    elif context.version == 0 and any(r not in brokers for r in partition.replicas):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return PartitionResponse(
        partition.partition,
        code,
        -1 if code == ErrorCode.LEADER_NOT_AVAILABLE else partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        partition.offline_replicas,
    )


# -- creation by asking -------------------------------------------------------------------


def _to_create(broker: Broker, context: RequestContext, request: Any) -> list[str]:
    """Topics to be made because somebody asked for them (versions before 4 always allow it)."""
    if not broker.settings.auto_create_topics_enable:
        return []
    if context.version >= 4 and not request.allow_auto_topic_creation:
        return []
    topics = broker.metadata.image.topics
    return [
        name
        for name in {topic.name: None for topic in request.topics}
        if name not in topics and _is_valid(name) and (name in _COORDINATED or not _internal(name))
    ]


async def _after_creation(
    broker: Broker, context: RequestContext, request: Any, missing: list[str]
) -> MetadataResponse:
    refused: dict[str, ErrorCode] = {}
    allowed = []
    for name in missing:
        cluster = broker.authorizer.allows(
            context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if cluster or broker.authorizer.allows(context, Operation.CREATE, ResourceType.TOPIC, name):
            allowed.append(NewTopic(name))
        else:
            refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for coordinator in (broker.groups, broker.transactions):
        if coordinator.topic in [topic.name for topic in allowed]:
            await coordinator.make_topic()
    allowed = [topic for topic in allowed if topic.name not in _COORDINATED]
    results = await broker.controller.create_topics(
        allowed, timeout_ms=_AUTO_CREATE_TIMEOUT_MS, validate_only=False
    )
    for name, (code, message, *_) in results.items():
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            # Clients are told that it isn't there, as by Apache Kafka, whatever the reason.
            logger.warning("can't create topic %s on first use: %s %s", name, code.name, message)
    return _answer(broker, context, request, _by_name(broker, context, request, refused))
