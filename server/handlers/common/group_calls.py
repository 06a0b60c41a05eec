"""Calls to several groups, or several calls to one group, for one response to a client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ApiError, ErrorCode

Topics: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""Topics with partitions."""


class GroupCalls(CoordinatorCalls):
    """The group coordinator calls of one request."""

    def call(
        self,
        group_id: str,
        ask: Callable[[GroupShard, ReplyFuture, int], DecisionOrSteps],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """As `GroupCoordinator.call`; `then` or `failed` gets the result."""
        self.submit(partial(self._broker.groups.call, group_id, ask), then, failed)

    def read(
        self,
        group_id: str,
        look: Callable[[GroupShard, int], Any],
        then: Callable[[Any], object],
        failed: Callable[[ErrorCode], object],
    ) -> None:
        """As `GroupCoordinator.read`; `then` or `failed` gets the result."""
        self.submit(partial(self._broker.groups.read, group_id, look), then, failed)


def check_group(
    broker: Broker, context: RequestContext, operation: Operation, group_id: str
) -> None:
    """ApiError if the client may not perform `operation` on the group, or the id is empty."""
    if not broker.authorizer.allows(context, operation, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
