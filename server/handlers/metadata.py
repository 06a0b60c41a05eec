"""Metadata: brokers, topics, partitions and their leaders, out of the current image.

Promises: topics by name or, from version 12, by id; creates missing topics where the client and
`auto.create.topics.enable` allow it. Unlike Apache Kafka, which answers UNKNOWN_TOPIC_OR_PARTITION
at first and lets the client ask again, the answer waits for the creation, which takes
milliseconds here. Who asks while another's question makes the topic is answered as by Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from kavka.server import slices
from kavka.server.auth.authorizer import (
    CLUSTER_NAME,
    QUESTION,
    QUESTIONS_A_STEP,
    Operation,
    ResourceType,
)
from kavka.server.big_answers import answer, written
from kavka.server.broker import Broker
from kavka.server.context import RequestContext, Response
from kavka.server.controller.new_topics import NewTopic, check_topic_name
from kavka.server.metadata_cache import PartitionImage, TopicImage
from kavka.server.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, allowed_bits
from kavka.server.slices import Slices
from kavka.server.topics import GROUP_TOPIC, INTERNAL_TOPICS, TRANSACTION_TOPIC
from kavka.wire.apis.metadata import (
    API,
    OPERATIONS_NOT_ASKED,
    BrokerResponse,
    MetadataResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_A_STEP, Pace

logger = logging.getLogger(__name__)

_IDS_SINCE: Final = 10
_IDS_ASKED_SINCE: Final = 12
_LISTENER_NOT_FOUND_SINCE: Final = 6
_CLUSTER_OPERATIONS: Final = range(8, 11)
_AUTO_CREATE_TIMEOUT_MS: Final = 15_000
_COORDINATED: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})
"""Topics that their coordinator makes."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    found = slices.run(broker.tasks, _look(broker, context, request))
    return found if isinstance(found, MetadataResponse) else _later(broker, context, request, found)


async def _later(
    broker: Broker,
    context: RequestContext,
    request: Any,
    found: list[str] | Awaitable[MetadataResponse | list[str]],
) -> Response:
    if isinstance(found, Awaitable):
        looked = await found
        if isinstance(looked, MetadataResponse):
            return await written(broker.tasks, API, context, looked)
        found = looked
    refused = await _create(broker, context, found)
    work = _by_name(broker, context, request, refused)
    made = answer(broker.tasks, API, context, work)
    return await made if isinstance(made, Awaitable) else made


def _look(
    broker: Broker, context: RequestContext, request: Any
) -> Slices[MetadataResponse | list[str]]:
    """The answer; or what has to be made before there is one."""
    if request.topics is None or (context.version == 0 and not request.topics):
        return (yield from _all(broker, context, request))
    if (yield from _asks_by_id(context, request)):
        return (yield from _by_id(broker, context, request))
    missing = yield from _to_create(broker, context, request)
    return missing or (yield from _by_name(broker, context, request, {}))


def _all(broker: Broker, context: RequestContext, request: Any) -> Slices[MetadataResponse]:
    """Every topic that the client may know of."""
    told = _Answer(broker, context, request)
    for name, topic in told.image.topics.items():
        if told.may_describe(name):
            yield from told.add(topic)
        elif told.pace.is_over(told.cost):
            yield
    return told.whole()


def _asks_by_id(context: RequestContext, request: Any) -> Slices[bool]:
    """ApiError if the names are not in order."""
    pace, by_id = Pace(), False
    for topic in request.topics:
        topic_id = topic.topic_id if context.version >= _IDS_SINCE else None
        unusual = topic.name is None or topic_id is not None
        if unusual and context.version < _IDS_ASKED_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if topic.name is None and topic_id is None:  # Apache Kafka does not expect it
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a topic without name and id")
        by_id = by_id or topic_id is not None
        if pace.is_over(1):
            yield
    return by_id


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


def _by_id(broker: Broker, context: RequestContext, request: Any) -> Slices[MetadataResponse]:
    told = _Answer(broker, context, request)
    image = told.image
    asked = {topic.topic_id: None for topic in request.topics if topic.topic_id is not None}
    for topic_id in asked:
        name = image.names_by_id.get(topic_id)
        if name is None:
            told.topics.append(TopicResponse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif told.may_describe(name):
            yield from told.add(image.topics[name])
            continue
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            told.topics.append(TopicResponse(None, topic_id, code))
        if told.pace.is_over(told.cost):
            yield
    return told.whole()


def _by_name(
    broker: Broker, context: RequestContext, request: Any, refused: Mapping[str, ErrorCode]
) -> Slices[MetadataResponse]:
    told = _Answer(broker, context, request)
    for name in {topic.name: None for topic in request.topics}:
        known = told.image.topics.get(name)
        if not told.may_describe(name):
            told.topics.append(TopicResponse(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif known is not None:
            yield from told.add(known)
            continue
        else:
            code, operations = _why_missing(name, refused), told.operations(name)
            told.topics.append(TopicResponse(name, None, code, _internal(name), (), operations))
        if told.pace.is_over(told.cost):
            yield
    return told.whole()


def _why_missing(name: str, refused: Mapping[str, ErrorCode]) -> ErrorCode:
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


def _internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


class _Answer:
    """As it grows, out of one image."""

    __slots__ = ("_broker", "_context", "_request", "cost", "image", "pace", "topics")

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self.image = broker.metadata.image
        self.pace = Pace()
        asks = request.include_topic_authorized_operations
        self.cost = QUESTION * (2 + (len(TOPIC_OPERATIONS) if asks else 0))
        """What a topic counts."""
        self.topics: list[TopicResponse] = []

    def may_describe(self, name: str) -> bool:
        allows = self._broker.authorizer.allows
        return allows(self._context, Operation.DESCRIBE, ResourceType.TOPIC, name)

    def add(self, topic: TopicImage) -> Slices[None]:
        partitions: list[PartitionResponse] = []
        for begin in range(0, len(topic.partitions), ITEMS_A_STEP):
            some = topic.partitions[begin : begin + ITEMS_A_STEP]
            partitions += map(self._partition, some)
            if self.pace.is_over(self.cost + 4 * len(some)):
                yield
        self.topics.append(
            TopicResponse(
                topic.name,
                topic.topic_id,
                0,
                _internal(topic.name),
                partitions,
                self.operations(topic.name),
            )
        )

    def operations(self, name: str) -> int:
        """What the client may do with a topic, be it there or not; only if it asks."""
        if not self._request.include_topic_authorized_operations:
            return OPERATIONS_NOT_ASKED
        return allowed_bits(self._broker, self._context, ResourceType.TOPIC, name, TOPIC_OPERATIONS)

    def _partition(self, partition: PartitionImage) -> PartitionResponse:
        brokers, version = self.image.brokers, self._context.version
        leader = brokers.get(partition.leader)
        code = ErrorCode.NONE
        if leader is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif self._context.peer.listener not in leader.endpoints:
            newer = version >= _LISTENER_NOT_FOUND_SINCE
            code = ErrorCode.LISTENER_NOT_FOUND if newer else ErrorCode.LEADER_NOT_AVAILABLE
        elif version == 0 and any(r not in brokers for r in partition.replicas):
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

    def whole(self) -> MetadataResponse:
        broker, image, peer = self._broker, self.image, self._context.peer
        return MetadataResponse(
            brokers=[
                BrokerResponse(known.broker_id, *address, known.rack)
                for known in image.brokers.values()
                if (address := broker.address_of(known, peer)) is not None
            ],
            cluster_id=image.cluster_id,
            controller_id=image.controller_id,
            topics=self.topics,
            cluster_authorized_operations=_cluster_operations(broker, self._context, self._request),
        )


# -- creation by asking -------------------------------------------------------------------


def _to_create(broker: Broker, context: RequestContext, request: Any) -> Slices[list[str]]:
    """Topics to be made because somebody asked for them (versions before 4 always allow it)."""
    if not broker.settings.auto_create_topics_enable:
        return []
    if context.version >= 4 and not request.allow_auto_topic_creation:
        return []
    topics, pace = broker.metadata.image.topics, Pace()
    missing: dict[str, None] = {}
    for name in {topic.name: None for topic in request.topics}:
        if name in topics:
            continue
        if _is_valid(name) and (name in _COORDINATED or not _internal(name)):
            missing[name] = None
        if pace.is_over(5):
            yield
    return list(missing)


async def _create(
    broker: Broker, context: RequestContext, missing: list[str]
) -> dict[str, ErrorCode]:
    """Make topics; which of them the client may not make."""
    refused: dict[str, ErrorCode] = {}
    allowed: list[NewTopic] = []
    for number, name in enumerate(missing, 1):
        if _may_create(broker, context, name):
            allowed.append(NewTopic(name))
        else:
            refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if number % QUESTIONS_A_STEP == 0:
            await broker.tasks.sleep(0)
    for coordinator in (broker.groups, broker.transactions):
        if coordinator.topic in [topic.name for topic in allowed]:
            await coordinator.make_topic()
    allowed = [topic for topic in allowed if topic.name not in _COORDINATED]
    results = await broker.controller.create_topics(
        allowed, timeout_ms=_AUTO_CREATE_TIMEOUT_MS, validate_only=False
    )
    for number, (name, (code, message, *_)) in enumerate(results.items(), 1):
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            # Clients are told that it isn't there, as by Apache Kafka, whatever the reason.
            logger.warning("can't create topic %s on first use: %s %s", name, code.name, message)
        if number % QUESTIONS_A_STEP == 0:
            await broker.tasks.sleep(0)
    return refused


def _may_create(broker: Broker, context: RequestContext, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, Operation.CREATE, ResourceType.TOPIC, name
    )
