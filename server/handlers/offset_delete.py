"""OffsetDelete: forget how far a group has come in some partitions (KIP-496).

Promises: offsets of topics that members read stay (GROUP_SUBSCRIBED_TO_TOPIC), and all while a
group is in use whose members' topics are not known (NON_EMPTY_GROUP). Up to `OFFSETS_A_STEP`
partitions of a request go together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, Ticket
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.group_calls import GroupCalls
from kavka.server.slices import Slices
from kavka.wire.apis.offset_delete import OffsetDeleteResponse, PartitionResponse, TopicResponse
from kavka.wire.errors import ApiError, ErrorCode

OFFSETS_A_STEP: Final = 1_000
"""Offsets that go with one batch, at 2 us each."""

_Topics = list[tuple[str, list[int]]]


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    if not broker.authorizer.allows(context, Operation.DELETE, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    deletion = _Deletion(broker, context, request)
    return deletion.calls.run(context, deletion.steps(), deletion.answer)


class _Deletion:
    """One request, and the answer as it grows."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self.calls: Final = GroupCalls(broker)
        self._group_id: Final = request.group_id
        self._code = ErrorCode.NONE
        self._answers: Final[dict[str, list[PartitionResponse]]] = {}
        self._accepted: Final[_Topics] = []
        for topic in request.topics:
            self._sort_out(broker, context, topic)

    def _sort_out(self, broker: Broker, context: RequestContext, topic: Any) -> None:
        """Accept a topic's partitions, or answer why not."""
        name, partitions = topic.name, [one.partition_index for one in topic.partitions]
        if not broker.authorizer.allows(context, Operation.READ, ResourceType.TOPIC, name):
            self._refuse(name, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        known = broker.metadata.image.topics.get(name)
        there = [] if known is None else [one for one in partitions if known.partition(one)]
        missing = [one for one in partitions if one not in there]
        if missing or not partitions:
            self._refuse(name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if there:
            self._accepted.append((name, there))

    def _refuse(self, name: str, partitions: list[int], code: ErrorCode) -> None:
        answers = self._answers.setdefault(name, [])
        answers += [PartitionResponse(index, code) for index in partitions]

    def steps(self) -> Slices[None]:
        """Ask the group; at least once, to know whether it is there."""
        if not self._group_id:
            self._code = ErrorCode.INVALID_GROUP_ID
            return
        for part in _parts(self._accepted):
            ask = partial(_ask, self._group_id, part)
            self.calls.call(self._group_id, ask, self._deleted, self._failed)
            if self._code:
                return
            yield

    def _deleted(self, answer: list[tuple[str, list[int]]]) -> None: ...


def _parts(topics: _Topics) -> Iterator[_Topics]: ...
