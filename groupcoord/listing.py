"""ListGroups, DescribeGroups of classic groups, and DeleteGroups. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.offset_records import TOMBSTONE_BYTES_PER_STEP, tombstone
from kavka.groupcoord.offsets import Offsets
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, JournalRecord, Reply, ReplyFuture
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

OFFSETS_MAX: Final = 10_000
"""Offsets of a group deleted by one decision, if they fit into its batch."""

OFFSETS_PER_STEP: Final = 1_000
"""Tombstones created between two pauses, at 1 us each."""


class ListedGroup(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


class DescribedMember(NamedTuple):
    """A member of a classic group; metadata and assignment while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A classic group."""

    state: str
    protocol_type: str
    protocol: str
    members: Sequence[DescribedMember]


def listed(
    state: GroupsState,
    group_ids: Iterable[str],
    states: Collection[str],
    kinds: Collection[str],
    now_ms: int,
) -> list[ListedGroup]:
    """The existing ones of `group_ids` that are in one of `states` and of one of `kinds`: both in
    lower case, and empty for all."""
    found = []
    for group_id in group_ids:
        group = state.groups.get(group_id)
        if group is None or (kinds and group.kind not in kinds):
            continue
        name = group.state(now_ms)
        if not states or name.lower() in states:
            found.append(ListedGroup(group_id, group.protocol_type, name, group.kind))
    return found


def described(state: GroupsState, group_id: str) -> DescribedGroup:
    """A classic group. ApiError GROUP_ID_NOT_FOUND."""
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    is_stable = group.current is GroupState.STABLE
    members = [
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol) if is_stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    ]
    protocol = group.protocol or "" if is_stable else ""
    return DescribedGroup(group.current.value, group.protocol_type, protocol, members)


def delete_group(
    state: GroupsState, offsets: Offsets, group_id: str, future: ReplyFuture
) -> Steps[Decision]:
    """DeleteGroups of one group, with all its offsets if their tombstones fit into a batch.
    Replies whether the group is deleted; if not, some of its offsets are, and the caller repeats
    the call. ApiError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    group.check_delete()
    records: list[JournalRecord] = []
    size_bytes = 0
    partitions = list(islice(offsets.partitions_with_pending(group_id), OFFSETS_MAX + 1))
    for topic, partition in partitions[:OFFSETS_MAX]:
        if size_bytes >= TOMBSTONE_BYTES_PER_STEP:
            break
        records.append(tombstone(group_id, topic, partition))
        size_bytes += len(records[-1].key)
        if len(records) % OFFSETS_PER_STEP == 0:
            yield None  # no other request runs; a marker may, but it adds no partitions
    if len(records) < len(partitions):
        return Decision(records, [Reply(future, False)])
    logger.info("Deleted group %s with %d offsets.", group_id, len(records))
    return Decision([*records, *group.tombstones()], [Reply(future, True)])
