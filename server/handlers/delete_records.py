"""DeleteRecords: raises the log start offset of partitions (KIP-107).

Promises: after the response nothing before the offset is read, here or from a follower that is
live; segments entirely before it are deleted by the next retention check, and the new log start
offset is checkpointed within the checkpoint's interval, as in Apache Kafka. A follower that has not
followed within the request's timeout does so later: the answer is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.metadata_cache import INTERNAL_TOPICS
from kavka.server.replica.replica import Replica
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.delete_records import (
    HIGH_WATERMARK,
    UNKNOWN,
    DeleteRecordsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PARTITIONS_PER_STEP: Final = 100
"""Partitions handled in one slice, at 10 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    begun = cooperative.run(broker.tasks, _Deletion(broker, context).begin(request), context)
    return begun if isinstance(begun, DeleteRecordsResponse) else _await_response(begun)


async def _await_response(answer: Any) -> DeleteRecordsResponse:
    while not isinstance(answer, DeleteRecordsResponse):
        answer = await answer
    return answer


class _Deletion:
    """One request, until the followers of its partitions have no more of the records."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._waiting: list[tuple[Replica, int, PartitionResponse]] = []
        """Partitions with followers, the offsets up to which their records go, and the answers."""

    def begin(self, request: Any) -> Steps[Any]:
        """The response, or an awaitable of it."""
        answers: dict[str, list[PartitionResponse]] = {}
        for done, (name, index, offset) in enumerate(_asked(request), 1):
            answers.setdefault(name, []).append(self._partition(name, index, offset))
            if done % PARTITIONS_PER_STEP == 0:
                yield None
        response = DeleteRecordsResponse(
            [TopicResponse(name, partitions) for name, partitions in answers.items()]
        )
        return response if self._is_complete() else self._wait(response, request.timeout_ms)

    def _partition(self, name: str, index: int, offset: int) -> PartitionResponse:
        broker = self._broker
        if not broker.authorizer.allows(self._context, Operation.DELETE, ResourceType.TOPIC, name):
            return PartitionResponse(index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        try:
            if name in INTERNAL_TOPICS and _exists(broker, name, index):
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            replica = broker.replicas.leader(name, index)
            wanted = replica.high_watermark if offset == HIGH_WATERMARK else offset
            answer = PartitionResponse(index, replica.delete_before(wanted))
        except ApiError as refusal:
            return PartitionResponse(index, error_code=refusal.code)
        if replica.partition.followers:
            self._waiting.append((replica, wanted, answer))
        return answer

    def _is_complete(self) -> bool:
        """Whether nothing is left to wait for; the answers say then what came of it."""
        live = self._broker.metadata.image.brokers
        still: list[tuple[Replica, int, PartitionResponse]] = []
        for one in self._waiting:
            replica, wanted, answer = one
            if not replica.is_served or not replica.partition.is_leader:
                answer.low_watermark = UNKNOWN
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            start = replica.log.start_offset
            answer.low_watermark = replica.partition.low_watermark(start, live)
            if answer.low_watermark < wanted:
                still.append(one)
        self._waiting = still
        return not still

    def _wait(
        self, response: DeleteRecordsResponse, timeout_ms: int
    ) -> Coroutine[Any, Any, DeleteRecordsResponse]:
        """Wait for followers, or the timeout. Changes are seen from this call on, even before the
        coroutine first runs."""
        keys = [key for replica, _, _ in self._waiting for key in (replica.key, replica.start_key)]
        purgatory = self._broker.purgatory
        woken = purgatory.wait(keys, self._is_complete, timeout_ms / 1000, "DeleteRecords")
        return self._when_complete(response, self._context.wait(woken))

    async def _when_complete(
        self, response: DeleteRecordsResponse, woken: asyncio.Future[Any]
    ) -> DeleteRecordsResponse:
        await woken
        for _, _, answer in self._waiting:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response


def _asked(request: Any) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset; for a partition that is named twice the last offset is used."""
    offsets = {
        (topic.name, one.partition_index): one.offset
        for topic in request.topics
        for one in topic.partitions
    }
    for (name, index), offset in offsets.items():
        yield name, index, offset


def _exists(broker: Broker, name: str, index: int) -> bool:
    topic = broker.metadata.image.topics.get(name)
    return topic is not None and topic.partition(index) is not None
