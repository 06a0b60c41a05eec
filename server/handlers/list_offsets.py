"""ListOffsets: the first, the last, or the offset for a time.

Promises: earliest, latest (high watermark, or last stable offset for read_committed), by time,
the record with the largest timestamp (KIP-734), and the local and tiered specials as a broker
without tiered storage answers them (KIP-405, KIP-1005, KIP-1023).
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.replica import offsets
from kavka.server.replica.reading import READ_COMMITTED
from kavka.wire.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_SPECIAL_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    asked_twice = _asked_twice(request)
    waiting: list[Any] = []
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            answer = PartitionResponse(asked.partition_index)
            partitions.append(answer)
            twice = (topic.name, asked.partition_index) in asked_twice
            try:
                found = _find(broker, context, request, topic.name, asked, twice)
            except ApiError as refusal:
                answer.error_code = refusal.code
                continue
            except OSError as failure:
                _fail(answer, topic.name, failure)
                continue
            if isinstance(found, offsets.Found):
                _fill(answer, found)
            else:
                waiting.append(_fill_later(answer, topic.name, found))
        topics.append(TopicResponse(topic.name, partitions))
    response = ListOffsetsResponse(topics)
    return _when_all(response, waiting) if waiting else response


def _asked_twice(request: Any) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


def _find(
    broker: Broker, context: RequestContext, request: Any, name: str, asked: Any, twice: bool
) -> Any:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    timestamp = asked.timestamp
    if timestamp < 0 and context.version < _SPECIAL_SINCE.get(timestamp, context.version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    replica = broker.replicas.leader(name, asked.partition_index)
    replica.check_epoch(asked.current_leader_epoch)
    return offsets.find(
        replica,
        timestamp,
        committed_only=request.isolation_level == READ_COMMITTED,
        tasks=broker.tasks,
        jobs=broker.jobs,
    )


def _fill(answer: PartitionResponse, found: offsets.Found) -> None:
    answer.timestamp, answer.offset, answer.leader_epoch = found


async def _fill_later(answer: PartitionResponse, topic: str, found: Any) -> None:
    try:
        _fill(answer, await found)
    except ApiError as refusal:
        answer.error_code = refusal.code
    except OSError as failure:
        _fail(answer, topic, failure)


def _fail(answer: PartitionResponse, topic: str, failure: OSError) -> None:
    logger.error("%s-%d can't be read: %s", topic, answer.partition_index, failure)
    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR


async def _when_all(response: ListOffsetsResponse, waiting: list[Any]) -> ListOffsetsResponse:
    for one in waiting:
        await one
    return response
