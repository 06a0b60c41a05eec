"""DeleteRecords: raises the log start offset of partitions (KIP-107).

Promises: after the response nothing before the offset is read, here or from a follower that is
live; segments entirely before it are deleted by the next retention check, and the new log start
offset is checkpointed within the checkpoint's interval, as in Apache Kafka. A follower that has not
followed within the request's timeout does so later: the response is REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

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

CHANGES_PER_STEP: Final = 500
"""Changed partitions looked at in one slice, at 2 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    begun = cooperative.run(broker.tasks, _Deletion(broker, context).begin(request), context)
    return begun if isinstance(begun, DeleteRecordsResponse) else _await_response(begun)


async def _await_response(result: Any) -> DeleteRecordsResponse:
    while not isinstance(result, DeleteRecordsResponse):
        result = await result
    return result


class _Waiting(NamedTuple):
    """A partition with followers, the offset up to which its records go, and its response."""

    replica: Replica
    target_offset: int
    response: PartitionResponse


class _Deletion:
    """One request, until the followers of its partitions have no more of the records."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self._broker = broker
        self._context = context
        self._waiting: dict[Hashable, _Waiting] = {}
        """By each of the keys that name their replicas in the purgatory."""
        self._live = broker.metadata.image.brokers.keys()
        self._noted: dict[Hashable, None] | None = None
        """Keys that have changed since their partitions were last looked at; None without
        followers."""
        self._is_waited_for = False

    def begin(self, request: Any) -> Steps[Any]:
        """The response, or an awaitable of it."""
        responses: dict[str, list[PartitionResponse]] = {}
        try:
            for done, (name, index, offset) in enumerate(_requested_offsets(request), 1):
                responses.setdefault(name, []).append(self._partition(name, index, offset))
                if done % PARTITIONS_PER_STEP == 0:
                    yield None
            response = DeleteRecordsResponse(
                [TopicResponse(name, partitions) for name, partitions in responses.items()]
            )
            if self._waiting:
                return self._wait(response, request.timeout_ms)
        finally:
            if not self._is_waited_for:
                self._end_notes()
        return response

    def _partition(self, name: str, index: int, offset: int) -> PartitionResponse:
        broker = self._broker
        if not broker.authorizer.allows(self._context, Operation.DELETE, ResourceType.TOPIC, name):
            return PartitionResponse(index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        try:
            if name in INTERNAL_TOPICS and _exists(broker, name, index):
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            replica = broker.replicas.leader(name, index)
            target_offset = replica.high_watermark if offset == HIGH_WATERMARK else offset
            response = PartitionResponse(index, replica.delete_before(target_offset))
        except ApiError as error:
            return PartitionResponse(index, error_code=error.code)
        if replica.partition.followers:
            if self._noted is None:
                self._noted = broker.purgatory.note_changes()
            waiting = _Waiting(replica, target_offset, response)
            if not self._is_done(waiting):
                self._waiting[replica.key] = self._waiting[replica.start_key] = waiting
        return response

    def _is_done(self, waiting: _Waiting) -> bool:
        """Whether nothing of a partition is left to wait for; its response says what came of it."""
        replica, target_offset, response = waiting
        if not replica.is_served or not replica.partition.is_leader:
            response.low_watermark = UNKNOWN
            response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        start, live = replica.log.start_offset, self._broker.metadata.image.brokers
        response.low_watermark = replica.partition.low_watermark(start, live)
        return response.low_watermark >= target_offset

    def _is_complete(self) -> Steps[bool]:
        """Whether nothing is left to wait for, after a look at what has changed."""
        assert self._noted is not None
        changed: Iterable[Hashable] = list(self._noted)
        self._noted.clear()
        live = self._broker.metadata.image.brokers.keys()
        if live != self._live:
            self._live, changed = live, list(self._waiting)
        for done, key in enumerate(changed, 1):
            waiting = self._waiting.get(key)
            if waiting is not None and self._is_done(waiting):
                del self._waiting[waiting.replica.key], self._waiting[waiting.replica.start_key]
            if done % CHANGES_PER_STEP == 0:
                yield None
        return not self._waiting

    def _wait(
        self, response: DeleteRecordsResponse, timeout_ms: int
    ) -> Coroutine[Any, Any, DeleteRecordsResponse]:
        """Wait for followers, or the timeout. Changes are seen from this call on, even before the
        coroutine first runs, and so are those noted before."""
        self._is_waited_for = True
        woken = self._broker.purgatory.wait(
            list(self._waiting),
            self._is_complete,
            timeout_ms / 1000,
            "DeleteRecords",
            noted=self._noted,
        )
        woken.add_done_callback(lambda _: self._end_notes())
        return self._when_complete(response, self._context.wait(woken))

    def _end_notes(self) -> None:
        if self._noted is not None:
            self._broker.purgatory.end_notes(self._noted)

    async def _when_complete(
        self, response: DeleteRecordsResponse, woken: asyncio.Future[Any]
    ) -> DeleteRecordsResponse:
        await woken
        for waiting in self._waiting.values():
            waiting.response.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response


def _requested_offsets(request: Any) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset; for a partition that is named twice the last offset is used."""
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    for (name, index), offset in offsets.items():
        yield name, index, offset


def _exists(broker: Broker, name: str, index: int) -> bool:
    topic = broker.metadata.image.topics.get(name)
    return topic is not None and topic.partition(index) is not None
