"""AlterPartition: another ISR for partitions, as their leader asks the controller for (KIP-497)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.events import RequestedIsr, StoredState
from kavka.server.handlers.common.controller_calls import check_cluster_action
from kavka.server.request.context import RequestContext
from kavka.wire.apis.alter_partition import (
    BROKER_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    AlterPartitionResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    check_cluster_action(broker, context)
    return _alter(broker, request, context.version)


async def _alter(broker: Broker, request: Any, version: int) -> AlterPartitionResponse:
    refused: list[TopicResponse] = []
    requested: dict[TopicPartition, RequestedIsr] = {}
    ids = await broker.controller.topic_ids()
    names = {topic_id: name for name, topic_id in ids.items()}
    for topic in request.topics:
        if version >= TOPIC_IDS_SINCE:
            name, topic_id = names.get(topic.topic_id), topic.topic_id
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name, topic_id = topic.topic_name, ids.get(topic.topic_name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name is None or topic_id is None:
            refused.append(_refused(topic, unknown))
            continue
        for partition in topic.partitions:
            requested[TopicPartition(name, partition.partition_index)] = RequestedIsr(
                request.broker_id,
                topic_id,
                partition.leader_epoch,
                partition.partition_epoch,
                tuple(_isr(partition, version)),
                partition.leader_recovery_state,
            )
    sender = request.broker_id, request.broker_epoch
    results = await broker.controller.alter_isrs(sender, requested)
    return AlterPartitionResponse(0, [*refused, *_topics(results, requested, version)])


def _isr(partition: Any, version: int) -> Iterator[int]:
    if version >= BROKER_EPOCHS_SINCE:
        return (replica.broker_id for replica in partition.new_isr_with_epochs)
    return iter(partition.new_isr)


def _refused(topic: Any, code: ErrorCode) -> TopicResponse:
    parts = [PartitionResponse(partition.partition_index, code) for partition in topic.partitions]
    return TopicResponse(topic.topic_name, topic.topic_id, parts)


def _topics(
    results: Mapping[TopicPartition, StoredState | ApiError],
    requested: Mapping[TopicPartition, RequestedIsr],
    version: int,
) -> Iterator[TopicResponse]:
    topics: dict[str, list[PartitionResponse]] = {}
    ids = {tp.topic: isr.topic_id for tp, isr in requested.items()}
    for tp, result in results.items():
        topics.setdefault(tp.topic, []).append(_response(tp.partition, result, version))
    for name, partitions in topics.items():
        yield TopicResponse(name, ids[name], partitions)


def _response(index: int, result: StoredState | ApiError, version: int) -> PartitionResponse:
    if isinstance(result, ApiError):
        code = result.code
        if code is ErrorCode.INELIGIBLE_REPLICA and version < TOPIC_IDS_SINCE:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED  # what there was before it
        return PartitionResponse(index, code)
    state = result.state
    return PartitionResponse(
        index,
        0,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.leader_recovery_state,
        result.version,
    )
