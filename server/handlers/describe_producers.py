"""DescribeProducers: the idempotent producers in the producer state of hosted partitions (KIP-664).

Promises: each producer's epoch, last sequence and timestamp, for clients that may read the topic;
this broker need not be the partition's leader.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.log.producer_entry import ProducerEntry
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.controller.topic_validation import check_topic_name
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PRODUCERS_PER_STEP: Final = 250
"""Producers and partitions described in one slice."""

PRODUCERS_PER_REQUEST_MAX: Final = 400_000
"""After so many producers, further partitions are refused: a small request can name one over and
over."""

_TOO_MANY: Final = "Excessively large number of producers per request."


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    return cooperative.run(broker.tasks, _describe(broker, context, request), context)


def _describe(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[DescribeProducersResponse]:
    topics: list[TopicResponse] = []
    done = described = 0
    for topic in request.topics:
        partitions: list[PartitionResponse] = []
        topics.append(TopicResponse(topic.name, partitions))
        error = _topic_error(broker, context, topic.name)
        for index in topic.partition_indexes:
            if error is not None:
                response = PartitionResponse(index, error.code, error.message)
            elif described >= PRODUCERS_PER_REQUEST_MAX:
                response = PartitionResponse(index, ErrorCode.POLICY_VIOLATION, _TOO_MANY)
            else:
                response = yield from _partition(broker, topic.name, index)
                described += len(response.active_producers)
            partitions.append(response)
            done += 1
            if done % PRODUCERS_PER_STEP == 0:
                yield None
    return DescribeProducersResponse(topics)


def _topic_error(broker: Broker, context: RequestContext, name: str) -> ApiError | None:
    """Why a topic can't be described, with Apache Kafka's message; None: it can."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    if name not in broker.metadata.image.topics:
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return None


def _partition(broker: Broker, name: str, index: int) -> Steps[PartitionResponse]:
    replica = broker.replicas.find(name, index)
    if replica is None:
        topic = broker.metadata.image.topics.get(name)
        elsewhere = topic is not None and topic.partition(index) is not None
        return PartitionResponse(
            index,
            ErrorCode.NOT_LEADER_OR_FOLLOWER if elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    if replica.offline:
        return PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR)
    producers: list[ProducerState] = []
    done = 0
    for part in replica.log.producers.parts():
        producers += map(_producer, part)
        done += len(part)
        if done >= PRODUCERS_PER_STEP:
            done = 0
            yield None
    return PartitionResponse(index, active_producers=producers)


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )
