"""Applies the records of consumer groups, both newly appended and replayed ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from kavka.groupcoord.consumer import consumer_group_records
from kavka.groupcoord.consumer.consumer_group_records import CurrentValue, DecodedRecord, Key
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import GroupIndex
from kavka.groupcoord.consumer.member import NO_EPOCH, ConsumerGroupMember
from kavka.log.journal import JournalRecord
from kavka.wire.fields import Malformed

logger: Final = logging.getLogger(__name__)

T = TypeVar("T")


def apply(index: GroupIndex, record: JournalRecord) -> None:
    """Apply a record; a malformed one is logged and skipped."""
    try:
        key = consumer_group_records.read_key(record.key)
        group = _group(index, key, creates=record.value is not None)
        if group is None:
            return
        before = dict(group.subscriptions) if key.kind in _ABOUT_SUBSCRIPTIONS else {}
        if record.value is None:
            _remove(index, group, key)
        else:
            _put(group, key, record, record.value)
    except Malformed as failure:
        logger.warning("Skipped a record of a consumer group: %s", failure)
        return
    if key.kind in _ABOUT_SUBSCRIPTIONS:
        index.subscribed(group, before)


_ABOUT_SUBSCRIPTIONS: Final = frozenset(
    {consumer_group_records.MEMBER, consumer_group_records.REGEX}
)


def _group(index: GroupIndex, key: Key, *, creates: bool) -> ConsumerGroup | None:
    groups = index.state.groups
    found = groups.get(key.group_id)
    if isinstance(found, ConsumerGroup):
        return found
    if found is None or (found.kind == "classic" and not found.protocol_type):
        # a classic group without a type only stores offsets; it has no record and is replaced
        if creates:
            groups[key.group_id] = made = ConsumerGroup(key.group_id)
            return made
        return None
    if creates:
        raise Malformed(f"group {key.group_id} is a {found.kind} group")
    return None


def _put(group: ConsumerGroup, key: Key, record: JournalRecord, value: bytes) -> None:
    if key.kind == consumer_group_records.GROUP:
        group.group_epoch, group.metadata_hash = consumer_group_records.read_group(value)
    elif key.kind == consumer_group_records.TOPICS:
        group.has_topics_record = True
    elif key.kind == consumer_group_records.MEMBER:
        member = _decoded(record, value, partial(consumer_group_records.read_member, key.second))
        old = group.members.get(key.second)
        if old is not None:
            member = replace(
                member,
                member_epoch=old.member_epoch,
                previous_member_epoch=old.previous_member_epoch,
                state=old.state,
                assigned=old.assigned,
                revoking=old.revoking,
            )
        group.put_member(member)
    elif key.kind == consumer_group_records.TARGET:
        target = consumer_group_records.read_target(value)
        group.assignment_epoch, group.assignment_timestamp_ms = target
    elif key.kind == consumer_group_records.TARGET_MEMBER:
        group.targets[key.second] = _decoded(
            record, value, consumer_group_records.read_target_member
        )
    elif key.kind == consumer_group_records.CURRENT_MEMBER:
        _put_current(
            group, key.second, _decoded(record, value, consumer_group_records.read_current_member)
        )
    else:
        group.put_resolved(key.second, _decoded(record, value, consumer_group_records.read_regex))


def _decoded(record: JournalRecord, value: bytes, read: Callable[[bytes], T]) -> T:
    """The decoded value; a record that was created here has it already."""
    return record.decoded if isinstance(record, DecodedRecord) else read(value)


def _put_current(group: ConsumerGroup, member_id: str, current: CurrentValue) -> None:
    old = group.members.get(member_id) or ConsumerGroupMember(member_id)
    group.put_member(
        replace(
            old,
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=current.state,
            assigned=current.assigned,
            revoking=current.revoking,
        )
    )


def _remove(index: GroupIndex, group: ConsumerGroup, key: Key) -> None:
    if key.kind == consumer_group_records.GROUP:
        del index.state.groups[key.group_id]
        index.subscribed(ConsumerGroup(key.group_id), group.subscriptions)
    elif key.kind == consumer_group_records.TOPICS:
        group.has_topics_record = False
    elif key.kind == consumer_group_records.MEMBER:
        group.remove_member(key.second)
    elif key.kind == consumer_group_records.TARGET:
        group.assignment_epoch, group.assignment_timestamp_ms = NO_EPOCH, 0
    elif key.kind == consumer_group_records.TARGET_MEMBER:
        group.targets.pop(key.second, None)
    elif key.kind == consumer_group_records.CURRENT_MEMBER:
        group.release_member(key.second)
    else:
        group.remove_resolved(key.second)
