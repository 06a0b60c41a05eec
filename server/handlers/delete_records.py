"""DeleteRecords: raises the log start offset of partitions (KIP-107).

Promises: after the response nothing before the offset is read; segments entirely before it are
deleted by the next retention check, and the new log start offset is checkpointed within the
checkpoint's interval, as in Apache Kafka. Partitions have one replica so far, so there are no
followers to wait for, and the request's timeout has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PARTITIONS_PER_STEP: Final = 100
"""Partitions handled in one slice, at 10 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    return cooperative.run(broker.tasks, _delete(broker, context, request), context)


def _delete(broker: Broker, context: RequestContext, request: Any) -> Steps[DeleteRecordsResponse]:
    answers: dict[str, list[PartitionResponse]] = {}
    for done, (name, index, offset) in enumerate(_asked(request), 1):
        answers.setdefault(name, []).append(_partition(broker, context, name, index, offset))
        if done % PARTITIONS_PER_STEP == 0:
            yield None
    return DeleteRecordsResponse(
        [TopicResponse(name, partitions) for name, partitions in answers.items()]
    )


def _asked(request: Any) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset; for a partition that is named twice the last offset is used."""
    offsets = {
        (topic.name, one.partition_index): one.offset
        for topic in request.topics
        for one in topic.partitions
    }
    for (name, index), offset in offsets.items():
        yield name, index, offset


def _partition(
    broker: Broker, context: RequestContext, name: str, index: int, offset: int
) -> PartitionResponse:
    if not broker.authorizer.allows(context, Operation.DELETE, ResourceType.TOPIC, name):
        return PartitionResponse(index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        if name in INTERNAL_TOPICS and _exists(broker, name, index):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = broker.replicas.leader(name, index)
        wanted = replica.high_watermark if offset == HIGH_WATERMARK else offset
        return PartitionResponse(index, replica.delete_before(wanted))
    except ApiError as refusal:
        return PartitionResponse(index, error_code=refusal.code)


def _exists(broker: Broker, name: str, index: int) -> bool:
    topic = broker.metadata.image.topics.get(name)
    return topic is not None and topic.partition(index) is not None
