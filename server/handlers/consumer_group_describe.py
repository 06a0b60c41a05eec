"""ConsumerGroupDescribe: consumer groups with their members and assignments (KIP-848).

Promises: groups come in the order of the request, unauthorized ones first; members of a group are
left out unless the client may describe all topics of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kavka.groupcoord.consumer import member as members
from kavka.groupcoord.consumer.member import partitions_of
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.allowed_operations import GROUP_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import CHECK_ITEMS, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import GroupCalls
from kavka.server.request.context import RequestContext
from kavka.wire.apis.consumer_group_describe import (
    API,
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, PauseCounter, Steps, each

GROUPS_PER_STEP: Final = 200
"""Groups read in one slice, at some 10 us each."""

_TOPICS_HIDDEN: Final = (
    "The described group uses topics that the client is not authorized to describe."
)


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.groups.has_consumer_protocol:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    calls = GroupCalls(broker, API)
    descriptions: list[_Description] = []
    asks_operations = request.include_authorized_operations

    def respond() -> Steps[ConsumerGroupDescribeResponse]:
        ordered = sorted(descriptions, key=lambda description: description.may)
        groups, pauses = [], PauseCounter()
        for description in ordered:
            groups.append((yield from description.build(pauses, asks_operations)))
        return ConsumerGroupDescribeResponse(groups)

    def ask(group_id: str) -> None:
        description = _Description(broker, context, group_id)
        descriptions.append(description)
        description.submit(calls)

    def steps() -> Steps[None]:
        yield from each(request.group_ids, ask, GROUPS_PER_STEP)

    return calls.run(context, steps(), respond)


class _Description:
    """The description of one group."""

    def __init__(self, broker: Broker, context: RequestContext, group_id: str) -> None:
        self._broker: Final = broker
        self._context: Final = context
        self.response = DescribedGroup(group_id)
        self._members: Sequence[tuple[members.ConsumerGroupMember, members.Target]] = ()
        """Each with its target assignment; immutable since they were read."""
        allows = broker.authorizer.allows
        self.may: Final = allows(context, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    def submit(self, calls: GroupCalls) -> None:
        group_id = self.response.group_id
        if not self.may:
            self._failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        elif not group_id:
            self._failed(ErrorCode.INVALID_GROUP_ID)
        else:
            calls.read(group_id, self._read, _nothing, self._failed)

    def _read(self, shard: GroupShard, now_ms: int) -> None:
        response = self.response
        try:
            group = shard.consumer.describe(response.group_id, now_ms)
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
            return
        response.group_state = group.state
        response.group_epoch = group.group_epoch
        response.assignment_epoch = group.assignment_epoch
        response.assignor_name = group.assignor
        self._members = group.members

    def _failed(self, code: ErrorCode) -> None:
        self.response = DescribedGroup(self.response.group_id, code)

    def build(self, pauses: PauseCounter, asks_operations: bool) -> Steps[DescribedGroup]:
        """The response for the group, with authorized operations if requested."""
        response = self.response
        if not response.error_code:
            names = self._broker.metadata.image.names_by_id.get
            described: list[Member] = []
            for member, target in self._members:
                described.append((yield from _member(member, target, names)))
                if pauses.is_due(20 + 10 * (len(member.assigned) + len(target))):
                    yield None
            response.members = described
            if not (yield from self._may_see_topics(pauses)):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                response = DescribedGroup(response.group_id, code, _TOPICS_HIDDEN)
        if asks_operations and not response.error_code:
            response.authorized_operations = allowed_bits(
                self._broker.authorizer,
                self._context,
                ResourceType.GROUP,
                response.group_id,
                GROUP_OPERATIONS,
            )
        return response

    def _may_see_topics(self, pauses: PauseCounter) -> Steps[bool]:
        topics: dict[str, None] = {}
        for member in self.response.members:
            topics |= dict.fromkeys(member.subscribed_topic_names)
            for assignment in (member.assignment, member.target_assignment):
                topics |= dict.fromkeys(topic.topic_name for topic in assignment.topic_partitions)
            if pauses.is_due(5 + len(member.subscribed_topic_names)):
                yield None
        allows = self._broker.authorizer.allows
        for topic in topics:
            if not allows(self._context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
                return False
            if pauses.is_due(CHECK_ITEMS):
                yield None
        return True


def _member(
    member: members.ConsumerGroupMember, target: members.Target, name_of: Any
) -> Steps[Member]:
    own = yield from partitions_of(member.assigned)
    for topic_id, partitions in (yield from partitions_of(member.revoking)).items():
        own[topic_id] = own.get(topic_id, []) + partitions
    assigned = yield from _assignment(own, name_of)
    target_assigned = yield from _assignment(target, name_of)
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.topic_names,
        member.topic_regex,
        assigned,
        target_assigned,
        CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Sequence[int]], name_of: Any) -> Steps[Assignment]:
    """Deleted topics have no names, and are left out."""
    described: list[TopicPartitions] = []

    def add(assigned: tuple[UUID, Sequence[int]]) -> None:
        topic_id, own = assigned
        name = name_of(topic_id)
        if name is not None:
            described.append(TopicPartitions(topic_id, name, own))

    yield from each(partitions.items(), add, QUICK_ITEMS_PER_STEP)
    return Assignment(described)


def _nothing(result: object) -> None:
    """The callback above has stored the result already."""
