"""DescribeLogDirs: the partitions in each log directory of this broker (KIP-113).

Promises: all partitions or the requested ones; those not hosted here are left out. Sizes are those
of the batches, lags those of this replica; the volume's size from version 4 on (KIP-827). A replica
that is being moved to a directory is a future replica there, with its lag behind the log. No
directory is cordoned. A failed directory, or one whose volume can't be queried, gets
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kavka.log.errors import CorruptLogError
from kavka.log.futures import FutureLog
from kavka.log.partition_log import PartitionLog
from kavka.seams import Pool
from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.wire.apis.describe_log_dirs import (
    UNKNOWN_LAG,
    DescribeLogDirsResponse,
    DirectoryResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

SEGMENTS_PER_STEP: Final = 250
"""Segments whose sizes are summed in one slice; a log counts as one segment at least."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _describe(broker, request)


async def _describe(broker: Broker, request: Any) -> DescribeLogDirsResponse:
    requested: set[tuple[str, int]] | None = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs = broker.replicas.logs
    found = logs.by_directory()
    failed = [
        DirectoryResponse(ErrorCode.KAFKA_STORAGE_ERROR, logs.absolute(directory))
        for directory in logs.failed_directories
    ]
    online = [
        await _directory(broker, directory, logs, requested) for directory, logs in found.items()
    ]
    return DescribeLogDirsResponse(online + failed)


async def _directory(
    broker: Broker,
    directory: str,
    logs: Sequence[PartitionLog],
    requested: set[tuple[str, int]] | None,
) -> DirectoryResponse:
    path = broker.replicas.logs.absolute(directory)
    try:
        volume = await broker.jobs.run(Pool.READ, broker.replicas.logs.volume, directory)
    except OSError as failure:
        logger.error("can't get the size of the volume of %s: %s", path, failure)
        return DirectoryResponse(ErrorCode.KAFKA_STORAGE_ERROR, path)
    topics: dict[str, list[PartitionResponse]] = {}
    for copy in broker.replicas.logs.futures.in_directory(directory):
        if requested is None or copy.key in requested:
            topics.setdefault(copy.key[0], []).append(_copy(copy))
            await broker.tasks.sleep(0)
    for part in _slices(logs):
        for log in part:
            if requested is None or (log.topic, log.partition) in requested:
                topics.setdefault(log.topic, []).append(_partition(broker, log))
        await broker.tasks.sleep(0)
    return DirectoryResponse(
        ErrorCode.NONE,
        path,
        [TopicResponse(name, partitions) for name, partitions in topics.items()],
        volume.total_bytes,
        volume.usable_bytes,
    )


def _slices(logs: Sequence[PartitionLog]) -> Iterator[Sequence[PartitionLog]]:
    start = segments = 0
    for index, log in enumerate(logs):
        if segments >= SEGMENTS_PER_STEP:
            yield logs[start:index]
            start, segments = index, 0
        segments += log.segment_count
    yield logs[start:]


def _copy(copy: FutureLog) -> PartitionResponse:
    assert copy.copier is not None
    lag = UNKNOWN_LAG
    try:
        lag = copy.copier.log.end_offset - copy.copier.end_offset
    except (OSError, CorruptLogError) as failure:
        logger.error("can't get the lag of %s: %s", copy.path, failure)
    return PartitionResponse(copy.key[1], copy.copier.size_bytes, lag, is_future_key=True)


def _partition(broker: Broker, log: PartitionLog) -> PartitionResponse:
    replica = broker.replicas.find(log.topic, log.partition)
    lag = UNKNOWN_LAG
    if replica is not None and replica.log is log:
        lag = max(replica.high_watermark - log.end_offset, 0)
    return PartitionResponse(log.partition, log.size_bytes, lag)
