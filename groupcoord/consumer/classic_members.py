"""Members of a consumer group that use the classic protocol (KIP-848).

No leader is among them: each gets its assignment by SyncGroup, and Heartbeat asks it to rejoin
when it has to revoke partitions or can get more.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from kavka.groupcoord.classic.group_requests import (
    LEAVING_MEMBERS_PER_STEP,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from kavka.groupcoord.consumer import embedded_protocol
from kavka.groupcoord.consumer.fencing import Fencing
from kavka.groupcoord.consumer.group import CONSUMER, ConsumerGroup
from kavka.groupcoord.consumer.group_index import JOIN, SYNC, GroupIndex
from kavka.groupcoord.consumer.heartbeats import (
    check_instance,
    check_size,
    known_static_member,
    random_id,
    static_member,
)
from kavka.groupcoord.consumer.member import (
    ClassicProtocols,
    ConsumerGroupMember,
    MemberState,
    in_order,
    partitions_of,
)
from kavka.groupcoord.consumer.member_update import MemberUpdate, RegexChange
from kavka.groupcoord.consumer.migration import DISABLED, Migration
from kavka.groupcoord.consumer.reconcile import Reported
from kavka.log.journal import Decision, JournalRecord, Reply, ReplyFuture
from kavka.wire.apis.join_group import JoinGroupResponse
from kavka.wire.apis.leave_group import LeaveGroupResponse, LeftMember
from kavka.wire.apis.sync_group import SyncGroupResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.fields import Malformed
from kavka.wire.steps import Steps, each, run_at_once

logger: Final = logging.getLogger(__name__)

_ID_FIRST_SINCE: Final = 4
"""From this version of JoinGroup on a new member must rejoin with its member id (KIP-394)."""


class ClassicMembers:
    """The requests of the classic protocol to consumer groups that have members. ApiError."""

    __slots__ = ("_index", "_fencing", "_migration")

    def __init__(self, index: GroupIndex, fencing: Fencing, migration: Migration) -> None:
        self._index = index
        self._fencing = fencing
        self._migration = migration

    # -- JoinGroup -------------------------------------------------------------------------------

    def join(self, request: JoinRequest, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        """Replies with a JoinGroupResponse immediately."""
        index = self._index
        group = index.group(request.group_id)
        self._check_policy(group)
        is_new = not request.member_id
        member_id = request.member_id or random_id(index.state.random)
        check_size(group, request.member_id, index.settings().group_consumer_max_size)
        _check_protocols(group, request, member_id)
        if is_new and request.instance_id is None and request.version >= _ID_FIRST_SINCE:
            logger.info(
                "[GroupId %s] Dynamic member with unknown member id joins the consumer group. "
                "Created a new member id %s and requesting the member to rejoin with this id.",
                group.group_id,
                member_id,
            )
            response = JoinGroupResponse(member_id, ErrorCode.MEMBER_ID_REQUIRED)
            return Decision(replies=[Reply(future, response)])
        subscription = _subscription(request)
        out = Decision()
        collected: list[JournalRecord] = []
        old = self._member(group, request, member_id, collected)
        new = _updated(old, request, subscription)
        change = MemberUpdate(index, group, old, collected, now_ms)
        other_names = yield from change.update_member(new)
        regex = change.update_regex(new, lambda topic: True)
        changed = other_names or regex is not RegexChange.NONE
        epoch, alike = yield from change.update_epoch(new, bump=changed)
        reported = self._migration.by_id(subscription.owned)
        out.records = collected
        before = group.static_member(request.instance_id)
        if self._migration.may_downgrade_replaced(group, before):
            new = yield from self._downgraded(change, new, epoch, reported, out, changed=changed)
        else:
            target = yield from change.update_target(new, epoch, alike=alike)
            new = yield from change.reconcile(new, target, reported, subscription_changed=changed)
            index.keep_alive(group, new, now_ms)
            sync_by_ms = now_ms + request.rebalance_timeout_ms
            index.set_timer(SYNC, group.group_id, new.member_id, sync_by_ms)
        index.cancel_timer(JOIN, group.group_id, new.member_id)
        out.replies.append(Reply(future, _joined(new)))
        return out

    def _downgraded(
        self,
        change: MemberUpdate,
        new: ConsumerGroupMember,
        epoch: int,
        reported: Reported,
        out: Decision,
        *,
        changed: bool,
    ) -> Steps[ConsumerGroupMember]:
        """This member's join converts the group to a classic one."""
        group = change.group
        reason = None
        if group.assignment_epoch < epoch:
            reason = (
                f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
            )
        else:
            target = (group.assignment_epoch, group.target_of(new))
            new = yield from change.reconcile(new, target, reported, subscription_changed=changed)
        out.records = change.records
        yield from self._migration.downgrade(group, out, change.now_ms, joining=new, reason=reason)
        return new

    def _check_policy(self, group: ConsumerGroup) -> None:
        if self._migration.policy == DISABLED:
            message = (
                f"Cannot join the consumer group {group.group_id} with the classic protocol "
                "because the group migration is disabled."
            )
            logger.info("%s", message)
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)

    def _member(
        self,
        group: ConsumerGroup,
        request: JoinRequest,
        member_id: str,
        collected: list[JournalRecord],
    ) -> ConsumerGroupMember:
        if request.instance_id is not None:
            return static_member(
                group, member_id, request.instance_id, collected, joins=not request.member_id
            )
        logger.info(
            "[GroupId %s] Member %s joins the consumer group using the classic protocol.",
            group.group_id,
            member_id,
        )
        return group.members.get(member_id) or ConsumerGroupMember(member_id)

    # -- SyncGroup -------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, future: ReplyFuture, now_ms: int) -> Decision:
        """Replies with a SyncGroupResponse immediately."""
        group = self._index.group(request.group_id)
        member = _known(group, request.member_id, request.instance_id)
        protocols = _check_generation(member, request.generation)
        _check_named(member, protocols, request)
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._must_join(group, member, now_ms)
            raise ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member "
                f"{member.member_id} should rejoin to catch up.",
            )
        self._index.cancel_timer(SYNC, group.group_id, member.member_id)
        self._index.keep_alive(group, member, now_ms)
        names = self._migration.by_name(run_at_once(partitions_of(member.assigned)))
        assignment = embedded_protocol.assignment(
            names, embedded_protocol.version_of(protocols.protocols[0][1])
        )
        response = SyncGroupResponse(0, request.protocol_type, request.protocol, assignment)
        return Decision(replies=[Reply(future, response)])

    def _must_join(self, group: ConsumerGroup, member: ConsumerGroupMember, now_ms: int) -> None:
        """Start the timer for a member that must rejoin: its rebalance timeout."""
        at_ms = now_ms + member.rebalance_timeout_ms
        self._index.set_timer_once(JOIN, group.group_id, member.member_id, at_ms)

    # -- Heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """NONE, or REBALANCE_IN_PROGRESS if the member must rejoin."""
        group = self._index.group(request.group_id)
        member = _known(group, request.member_id, request.instance_id)
        _check_generation(member, request.generation)
        self._index.keep_alive(group, member, now_ms)
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_others(group, member)
            )
        ):
            self._must_join(group, member, now_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # -- LeaveGroup ------------------------------------------------------------------------------

    def leave(self, request: LeaveRequest, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        """Replies with a LeaveGroupResponse with an error code for each leaving member."""
        group = self._index.group(request.group_id)
        gone: dict[str, ConsumerGroupMember] = {}
        responses = []

        def leave(leaving: LeavingMember) -> None:
            code = ErrorCode.NONE
            try:
                member = _leaving(group, leaving)
                gone[member.member_id] = member
            except ApiError as failure:
                code = failure.code
            responses.append(LeftMember(leaving.member_id, leaving.instance_id, code))

        yield from each(request.leaving_members, leave, LEAVING_MEMBERS_PER_STEP)
        reply = Reply(future, LeaveGroupResponse(0, responses))
        return (yield from self._fencing.fence(group, list(gone.values()), [reply], now_ms))


def _updated(
    old: ConsumerGroupMember, request: JoinRequest, subscription: embedded_protocol.Subscription
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=in_order(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicProtocols(
            request.session_timeout_ms, tuple((name, data) for name, data in request.protocols)
        ),
    )


def _joined(member: ConsumerGroupMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic.protocols[0][0],
    )


def _check_protocols(group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
    """ApiError INCONSISTENT_GROUP_PROTOCOL unless all classic members support one of the member's
    protocols."""
    if request.protocol_type == CONSUMER and any(
        group.classic_protocols.get(name, 0) == group.classic_members
        for name, _ in request.protocols
    ):
        return
    raise ApiError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
    )


def _subscription(request: JoinRequest) -> embedded_protocol.Subscription:
    """The subscription, from the first protocol: all of them have the same topics."""
    try:
        return embedded_protocol.read_subscription(request.protocols[0].metadata)
    except Malformed as failure:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Malformed embedded consumer protocol in subscription deserialization.",
        ) from failure


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member with instance id {instance_id} is not a member of group {group.group_id}.",
        )
    check_instance(group, member, member_id, instance_id)
    return member


def _check_generation(member: ConsumerGroupMember, generation: int) -> ClassicProtocols:
    """The protocols of the member's JoinGroup. ApiError UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION."""
    if member.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member.member_id} does not use the classic protocol.",
        )
    if generation != member.member_epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.member_epoch} of member {member.member_id}.",
        )
    return member.classic


def _check_named(
    member: ConsumerGroupMember, protocols: ClassicProtocols, request: SyncRequest
) -> None:
    name = protocols.protocols[0][0]
    if request.protocol_type is not None and request.protocol_type != CONSUMER:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {request.protocol_type} from member {member.member_id} request is "
            f"not equal to the group protocol type {CONSUMER}.",
        )
    if request.protocol is not None and request.protocol != name:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {request.protocol} from member {member.member_id} request is not "
            f"equal to the protocol name {name} returned in the join response.",
        )


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether partitions of the member's target are still owned by others."""
    return any(
        partition not in member.assigned.get(topic, ()) and group.has_owner(topic, partition)
        for topic, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerGroupMember:
    """ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if leaving.instance_id is None:
        member, kind = group.member(leaving.member_id), "Dynamic"
    else:
        # an admin client sends only the instance id
        owner = group.static_members.get(leaving.instance_id, "")
        member_id = leaving.member_id or owner
        member, kind = known_static_member(group, member_id, leaving.instance_id), "Static"
    logger.info(
        "[GroupId %s] %s member %s has left group through explicit `LeaveGroup` request; client "
        "reason: %s",
        group.group_id,
        kind,
        member.member_id,
        leaving.reason or "not provided",
    )
    return member
