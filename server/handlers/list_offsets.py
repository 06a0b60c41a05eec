"""ListOffsets: the earliest or latest offset, or the offset for a timestamp.

Promises: earliest, latest (high watermark, or last stable offset for read_committed), by timestamp,
the record with the largest timestamp (KIP-734), and the special timestamps for local and tiered
logs, answered as by a broker without tiered storage (KIP-405, KIP-1005, KIP-1023). Version 0
returns base offsets of segments, by the modification time of their files.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final

from kavka.server.auth.authorizer import CHECK_ITEMS, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.replica import offset_lookup
from kavka.server.replica.fetch_reading import ISOLATION_LEVELS, READ_COMMITTED
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices, respond
from kavka.server.runtime import cooperative
from kavka.wire.apis.list_offsets import (
    API,
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
from kavka.wire.steps import PauseCounter, Steps

logger = logging.getLogger(__name__)

_SPECIAL_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


_CONSUMER: Final = -1

_UNAVAILABLE_SINCE: Final = 5


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not context.version:
        return respond(broker.tasks, API, context, _offsets_of_segments(broker, context, request))
    if request.isolation_level not in ISOLATION_LEVELS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown isolation level")
    found = cooperative.run(broker.tasks, _look_up(broker, context, request))
    if isinstance(found, Awaitable):
        return _await_response(broker, context, found)
    response, waiting = found
    return _when_all(response, waiting) if waiting else response


async def _await_response(
    broker: Broker,
    context: RequestContext,
    found: Awaitable[tuple[ListOffsetsResponse, list[Any]]],
) -> Response:
    return await encode_in_slices(broker.tasks, API, context, await _when_all(*await found))


def _look_up(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[tuple[ListOffsetsResponse, list[Any]]]:
    """The response, and awaitables that complete it."""
    requested, twice = yield from _each_once(request)
    waiting: list[Any] = []
    topics, pauses = [], PauseCounter()
    for name, partitions in requested.items():
        responses: list[PartitionResponse] = []
        for partition in partitions.values():
            if pauses.is_due(CHECK_ITEMS):
                yield None
            response = PartitionResponse(partition.partition_index)
            responses.append(response)
            try:
                is_twice = (name, partition.partition_index) in twice
                found = _find(broker, context, request, name, partition, is_twice)
            except ApiError as error:
                response.error_code = _code(context, error)
                continue
            except OSError as failure:
                _fail(broker, response, name, failure)
                continue
            if isinstance(found, offset_lookup.FoundOffset):
                _fill(response, found)
            else:
                waiting.append(_fill_later(broker, context, response, name, found))
        topics.append(TopicResponse(name, responses))
    return ListOffsetsResponse(topics), waiting


def _offsets_of_segments(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[ListOffsetsResponse]:
    """Version 0. Unauthorized topics come last; a partition named twice gets two responses."""
    allowed: list[TopicResponse] = []
    refused: list[TopicResponse] = []
    pauses = PauseCounter()
    for topic in request.topics:
        may = broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        responses: list[PartitionResponse] = []
        (allowed if may else refused).append(TopicResponse(topic.name, responses))
        for partition in topic.partitions:
            if pauses.is_due(CHECK_ITEMS):
                yield None
            response = PartitionResponse(partition.partition_index)
            responses.append(response)
            try:
                if not may:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if partition.timestamp < EARLIEST:
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                response.old_style_offsets = offset_lookup.find_old(
                    broker.replicas.leader(topic.name, partition.partition_index),
                    partition.timestamp,
                    partition.max_num_offsets,
                    by_replica=request.replica_id != _CONSUMER,
                )
            except ApiError as error:
                response.error_code = error.code
            except OSError as failure:
                _fail(broker, response, topic.name, failure)
    return ListOffsetsResponse(allowed + refused)


def _each_once(request: Any) -> Steps[tuple[dict[str, dict[int, Any]], set[tuple[str, int]]]]:
    """The request by topic and partition, in order; and the partitions that were named twice."""
    requested: dict[str, dict[int, Any]] = {}
    twice: set[tuple[str, int]] = set()
    pauses = PauseCounter()
    for topic in request.topics:
        for partition in topic.partitions:
            index = partition.partition_index
            if requested.setdefault(topic.name, {}).setdefault(index, partition) is not partition:
                twice.add((topic.name, index))
            if pauses.is_due(1):
                yield None
    return requested, twice


def _find(
    broker: Broker, context: RequestContext, request: Any, name: str, partition: Any, twice: bool
) -> Any:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    timestamp = partition.timestamp
    if timestamp < 0 and context.version < _SPECIAL_SINCE.get(timestamp, context.version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    replica = broker.replicas.leader(name, partition.partition_index)
    replica.check_epoch(partition.current_leader_epoch)
    return offset_lookup.find(
        replica,
        timestamp,
        committed_only=request.isolation_level == READ_COMMITTED,
        opener=broker.replicas.opener,
        by_replica=request.replica_id >= 0,
    )


def _fill(response: PartitionResponse, found: offset_lookup.FoundOffset) -> None:
    response.timestamp, response.offset, response.leader_epoch = found


async def _fill_later(
    broker: Broker, context: RequestContext, response: PartitionResponse, topic: str, found: Any
) -> None:
    try:
        _fill(response, await found)
    except ApiError as error:
        response.error_code = _code(context, error)
    except OSError as failure:
        _fail(broker, response, topic, failure)


def _code(context: RequestContext, error: ApiError) -> ErrorCode:
    """The code for the client's version, one that it retries."""
    if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.version < _UNAVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


def _fail(broker: Broker, response: PartitionResponse, topic: str, failure: OSError) -> None:
    logger.error("can't read %s-%d: %s", topic, response.partition_index, failure)
    replica = broker.replicas.find(topic, response.partition_index)
    if replica is not None:
        replica.read_failed(failure)
    response.error_code = ErrorCode.KAFKA_STORAGE_ERROR


async def _when_all(response: ListOffsetsResponse, waiting: list[Any]) -> ListOffsetsResponse:
    for awaitable in waiting:
        await awaitable
    return response
