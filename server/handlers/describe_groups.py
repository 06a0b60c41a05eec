"""DescribeGroups: state and members of groups with the classic protocol.

Promises: a group that does not exist, or has another protocol, is described as dead, and from
version 6 on with GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from typing import Any, Final

from kavka.groupcoord import listing
from kavka.groupcoord.listing import DescribedGroup
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.allowed_operations import GROUP_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import GroupCalls
from kavka.server.request.context import RequestContext
from kavka.wire.apis.describe_groups import (
    API,
    DEAD,
    NOT_FOUND_VERSION,
    DescribeGroupsResponse,
    GroupResponse,
    MemberResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

MEMBERS_PER_STEP: Final = 500
"""Members, or groups, described in one slice, at 2 us each."""

ID_CHARACTERS: Final = 50
"""Characters of a group id that take as long as a member, as the id is hashed."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    calls = GroupCalls(broker, API)
    descriptions: list[_Description] = []
    asks_operations = request.include_authorized_operations

    def respond() -> DescribeGroupsResponse:
        ordered = sorted(descriptions, key=lambda description: description.may)
        return DescribeGroupsResponse(
            [description.build(asks_operations) for description in ordered]
        )

    def steps() -> Steps[None]:
        members = 0
        for group_id in request.groups:
            description = _Description(broker, context, group_id)
            descriptions.append(description)
            description.submit(calls)
            members += 1 + len(description.response.members) + len(group_id) // ID_CHARACTERS
            if members >= MEMBERS_PER_STEP:
                members = 0
                yield None

    return calls.run(context, steps(), respond)


class _Description:
    """The description of one group."""

    def __init__(self, broker: Broker, context: RequestContext, group_id: str) -> None:
        self._broker: Final = broker
        self._context: Final = context
        self.response = GroupResponse(group_id)
        allows = broker.authorizer.allows
        self.may: Final = allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    def submit(self, calls: GroupCalls) -> None:
        group_id = self.response.group_id
        if self.may:
            calls.read(group_id, self._read, _nothing, self._failed)
        else:
            self._failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _read(self, shard: GroupShard, now_ms: int) -> None:
        try:
            self._describe(listing.described(shard.state, self.response.group_id))
        except ApiError as error:
            self.response.group_state = DEAD
            if self._context.version >= NOT_FOUND_VERSION:
                self.response.error_code = error.code
                self.response.error_message = error.message

    def _describe(self, group: DescribedGroup) -> None:
        response = self.response
        response.group_state = group.state
        response.protocol_type = group.protocol_type
        response.protocol_data = group.protocol
        response.members = [MemberResponse(*member) for member in group.members]

    def _failed(self, code: ErrorCode) -> None:
        group_id = self.response.group_id
        self.response = GroupResponse(group_id, code)

    def build(self, asks_operations: bool) -> GroupResponse:
        """The response for the group, with authorized operations if requested."""
        response = self.response
        if asks_operations and not response.error_code:
            response.authorized_operations = allowed_bits(
                self._broker.authorizer,
                self._context,
                ResourceType.GROUP,
                response.group_id,
                GROUP_OPERATIONS,
            )
        return response


def _nothing(result: object) -> None:
    """The callback above has stored the result already."""
