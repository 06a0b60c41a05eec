"""AlterReplicaLogDirs: moves replicas to other log directories of this broker (KIP-113).

Promises: the response is sent when the move has started; DescribeLogDirs shows its progress. A
request for the replica's current directory cancels its move, and one for another directory restarts
it there. A partition that does not exist yet gets an error, but will be created in the directory.
For a partition that is named twice the last directory is used.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.alter_replica_log_dirs import (
    API,
    AlterReplicaLogDirsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

PARTITIONS_PER_STEP: Final = 4
"""Partitions handled in one slice: creating the directory of each takes 0.3 ms."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return API.error_response(request, refused, context.version)
    return cooperative.run(broker.tasks, _alter(broker, request), context)


def _alter(broker: Broker, request: Any) -> Steps[AlterReplicaLogDirsResponse]:
    paths = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    responses: dict[str, list[PartitionResponse]] = {}
    for done, ((name, index), path) in enumerate(paths.items(), 1):
        responses.setdefault(name, []).append(_partition(broker, name, index, path))
        if done % PARTITIONS_PER_STEP == 0:
            yield None
    return AlterReplicaLogDirsResponse(
        [TopicResponse(name, partitions) for name, partitions in responses.items()]
    )


def _partition(broker: Broker, name: str, index: int, path: str) -> PartitionResponse:
    try:
        broker.moves.alter(name, index, path)
    except ApiError as error:
        broker.moves.refusals.line("%s-%d can't move to %s: %s", name, index, path, error)
        return PartitionResponse(index, error.code)
    return PartitionResponse(index)
