"""ListGroups: the groups that this broker coordinates.

Promises: case-insensitive filters by state (KIP-518) and type (KIP-848); an unknown state or type
matches nothing. While groups are being loaded the response is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kavka.groupcoord import listing
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.authorizer import (
    CHECKS_PER_STEP,
    CLUSTER_NAME,
    Operation,
    ResourceType,
)
from kavka.server.broker import Broker
from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.request.context import RequestContext
from kavka.wire.apis.list_groups import API, ListedGroup, ListGroupsResponse
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import Steps, each

GROUPS_PER_STEP: Final = 1_000
"""Groups read in one slice, at 1 to 2 us each."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    listing_ = _Listing(broker, context, request)
    return listing_.calls.run(context, listing_.steps(), listing_.response)


class _Listing:
    """One request, and its results so far."""

    def __init__(self, broker: Broker, context: RequestContext, request: Any) -> None:
        self.calls: Final = CoordinatorCalls(broker, API)
        self._broker: Final = broker
        self._context: Final = context
        self._states: Final = {state.strip() for state in _lower(request.states_filter)}
        self._kinds: Final = _lower(request.types_filter)
        self._code = ErrorCode.NONE
        self._groups: Final[list[ListedGroup]] = []

    def steps(self) -> Steps[None]:
        runners = self._broker.groups.runners
        return self.calls.read_all(
            runners, _ids, GROUPS_PER_STEP, self._read, self._found, self._failed
        )

    def _read(
        self, group_ids: Sequence[str], shard: GroupShard, now_ms: int
    ) -> list[listing.ListedGroup]:
        return listing.listed(shard.state, group_ids, self._states, self._kinds, now_ms)

    def _found(self, groups: list[listing.ListedGroup]) -> None:
        self._groups.extend(ListedGroup(*group) for group in groups)

    def _failed(self, code: ErrorCode) -> None:
        if code != ErrorCode.NOT_COORDINATOR:  # another broker lists its groups now
            self._code = code

    def response(self) -> Steps[ListGroupsResponse]:
        if self._code:
            return ListGroupsResponse(error_code=self._code)
        allows, context = self._broker.authorizer.allows, self._context
        if allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            return ListGroupsResponse(self._groups)
        visible: list[ListedGroup] = []

        def add_visible(group: ListedGroup) -> None:
            if allows(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
                visible.append(group)

        yield from each(self._groups, add_visible, CHECKS_PER_STEP)
        return ListGroupsResponse(visible)


def _ids(shard: GroupShard) -> Iterable[str]:
    return shard.state.groups


def _lower(names: Iterable[str] | None) -> frozenset[str]:
    return frozenset(name.lower() for name in names or ())
