"""Metadata: brokers, topics, partitions and their leaders, from the current metadata image.

Promises: topics by name or, from version 12, by id; auto-creates missing topics if the client and
`auto.create.topics.enable` allow it. As in Apache Kafka, the response then has
UNKNOWN_TOPIC_OR_PARTITION, and the client retries. Waiting for the creation would save most
clients 0.1 to 0.3 s and a line in their logs; but kafka-go passes the error to the program, which
would then work with Kavka and fail with Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final
from uuid import UUID

from kavka.server.auth.allowed_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import (
    CHECK_ITEMS,
    CHECKS_PER_STEP,
    CLUSTER_NAME,
    Operation,
    ResourceType,
)
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import (
    GROUP_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_TOPIC,
    PartitionImage,
    TopicImage,
)
from kavka.server.controller.topic_validation import NewTopic, check_topic_name
from kavka.server.handlers.common.described import once_described
from kavka.server.request.context import RequestContext
from kavka.server.request.sliced_responses import respond
from kavka.wire.apis.metadata import (
    API,
    OPERATIONS_NOT_REQUESTED,
    BrokerResponse,
    MetadataResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import ITEMS_PER_STEP, PauseCounter, Steps

_IDS_SINCE: Final = 10
_IDS_ASKED_SINCE: Final = 12
_LISTENER_NOT_FOUND_SINCE: Final = 6
_CLUSTER_OPERATIONS: Final = range(8, 11)
_AUTO_CREATE_TIMEOUT_MS: Final = 15_000

AUTO_CREATE_MAX: Final = 1_000
"""Topics being auto-created at a time; further ones are created when clients retry."""

_COORDINATED: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})
"""Topics that are created by their coordinator."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    def build() -> Any:
        return respond(broker.tasks, API, context, _build(broker, context, request))

    return once_described(broker, build)


def _build(broker: Broker, context: RequestContext, request: Any) -> Steps[MetadataResponse]:
    """Build the response in slices."""
    builder = _ResponseBuilder(broker, context, request)
    if request.topics is None or (context.version == 0 and not request.topics):
        yield from _all(builder)
        return builder.whole()
    names, ids = yield from _requested(context, request)
    if ids:
        yield from _by_id(builder, ids)
        return builder.whole()
    missing = (yield from _missing(builder, names)) if _creates(broker, context, request) else []
    refused: set[str] = set()
    yield from _create(broker, context, missing, refused)
    yield from _by_name(builder, names, refused)
    return builder.whole()


def _requested(
    context: RequestContext, request: Any
) -> Steps[tuple[dict[str, None], dict[UUID, None]]]:
    """Requested names and ids, each once. ApiError if the version does not allow them."""
    names: dict[str, None] = {}
    ids: dict[UUID, None] = {}
    pauses = PauseCounter()
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id if context.version >= _IDS_SINCE else None
        if (name is None or topic_id is not None) and context.version < _IDS_ASKED_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if topic_id is not None:
            ids[topic_id] = None
        elif name is not None:
            names[name] = None
        else:  # an error in Apache Kafka too
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a topic without name and id")
        if pauses.is_due(1):
            yield None
    return names, ids


def _cluster_operations(broker: Broker, context: RequestContext, request: Any) -> int:
    if context.version not in _CLUSTER_OPERATIONS:
        return OPERATIONS_NOT_REQUESTED
    if not request.include_cluster_authorized_operations:
        return OPERATIONS_NOT_REQUESTED
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return 0
    return allowed_bits(
        broker.authorizer, context, ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
    )


# -- topics -------------------------------------------------------------------------------


def _all(builder: _ResponseBuilder) -> Steps[None]:
    """Add every topic that the client may describe."""
    for name, topic in builder.image.topics.items():
        if builder.may_describe(name):
            yield from builder.add(topic)
        elif builder.pauses.is_due(builder.cost):
            yield None


def _by_id(builder: _ResponseBuilder, ids: Iterable[UUID]) -> Steps[None]:
    image = builder.image
    for topic_id in ids:
        name = image.names_by_id.get(topic_id)
        if name is None or name not in image.topics:
            builder.topics.append(TopicResponse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        elif builder.may_describe(name):
            yield from builder.add(image.topics[name])
            continue
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            builder.topics.append(TopicResponse(None, topic_id, code))
        if builder.pauses.is_due(builder.cost):
            yield None


def _by_name(
    builder: _ResponseBuilder, names: Iterable[str], refused: Container[str]
) -> Steps[None]:
    """Add the requested topics; those in `refused` the client may not create."""
    for name in names:
        known = builder.image.topics.get(name)
        if not builder.may_describe(name):
            builder.topics.append(TopicResponse(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif known is not None:
            yield from builder.add(known)
            continue
        elif name in refused:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            builder.topics.append(TopicResponse(name, None, code, _internal(name)))
        else:
            code, operations = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, builder.operations(name)
            if not _is_valid(name):
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
            builder.topics.append(TopicResponse(name, None, code, _internal(name), (), operations))
        if builder.pauses.is_due(builder.cost):
            yield None


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def _internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


class _ResponseBuilder:
    """Collects a response's topics, all from one metadata image."""

    __slots__ = ("_broker", "_context", "_request", "cost", "image", "pauses", "topics")

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self.image = broker.metadata.image
        self.pauses = PauseCounter()
        asks = request.include_topic_authorized_operations
        self.cost = CHECK_ITEMS * (2 + (len(TOPIC_OPERATIONS) if asks else 0))
        """Items that a topic counts for `pauses`."""
        self.topics: list[TopicResponse] = []

    def may_describe(self, name: str) -> bool:
        allows = self._broker.authorizer.allows
        return allows(self._context, Operation.DESCRIBE, ResourceType.TOPIC, name)

    def add(self, topic: TopicImage) -> Steps[None]:
        partitions: list[PartitionResponse] = []
        for begin in range(0, len(topic.partitions), ITEMS_PER_STEP):
            some = topic.partitions[begin : begin + ITEMS_PER_STEP]
            partitions += map(self._partition, some)
            if self.pauses.is_due(self.cost + 4 * len(some)):
                yield None
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
        """Authorized operations on a topic, existing or not, if requested."""
        if not self._request.include_topic_authorized_operations:
            return OPERATIONS_NOT_REQUESTED
        return allowed_bits(
            self._broker.authorizer, self._context, ResourceType.TOPIC, name, TOPIC_OPERATIONS
        )

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


# -- auto-creation ------------------------------------------------------------------------


def _creates(broker: Broker, context: RequestContext, request: Any) -> bool:
    """Whether missing topics are auto-created; versions before 4 always allow it."""
    if not broker.settings.auto_create_topics_enable:
        return False
    return context.version < 4 or bool(request.allow_auto_topic_creation)


def _missing(builder: _ResponseBuilder, names: Iterable[str]) -> Steps[list[str]]:
    """Missing topics that can be auto-created and that the client may describe."""
    topics, pauses = builder.image.topics, PauseCounter()
    missing: list[str] = []
    for name in names:
        if name in topics:
            continue
        can_be = _is_valid(name) and (name in _COORDINATED or not _internal(name))
        if can_be and builder.may_describe(name):
            missing.append(name)
        if pauses.is_due(CHECK_ITEMS):
            yield None
    return missing


def _create(
    broker: Broker, context: RequestContext, missing: list[str], refused: set[str]
) -> Steps[None]:
    """Start creating topics; those that the client may not create are added to `refused`."""
    pauses, to_create = PauseCounter(), dict[str, None]()
    for name in missing:
        if not _may_create(broker, context, name):
            refused.add(name)
        elif name not in broker.auto_creating and len(broker.auto_creating) < AUTO_CREATE_MAX:
            to_create[name] = broker.auto_creating[name] = None
        if pauses.is_due(2 * CHECK_ITEMS):
            yield None
    if to_create:
        broker.tasks.spawn(_create_now(broker, to_create), name="topics on first use")


async def _create_now(broker: Broker, to_create: dict[str, None]) -> None:
    try:
        topics = [NewTopic(name) for name in to_create if name not in _COORDINATED]
        results = await broker.topic_creator.create_topics(
            topics, timeout_ms=_AUTO_CREATE_TIMEOUT_MS, validate_only=False
        )
        for coordinator in (broker.groups, broker.transactions):
            if coordinator.topic in to_create:
                await coordinator.create_topic()
    finally:
        for name in to_create:
            del broker.auto_creating[name]
    for number, (name, (code, message, *_)) in enumerate(results.items(), 1):
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = f"{code.name} {message or ''}"
            broker.refusals.line("can't create topic %s on first use: %s", name, reason)
        if number % CHECKS_PER_STEP == 0:
            await broker.tasks.sleep(0)


def _may_create(broker: Broker, context: RequestContext, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, Operation.CREATE, ResourceType.TOPIC, name
    )
