"""Removes members that leave a group or are fenced."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.groupcoord.consumer import consumer_group_records
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import GroupIndex
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.groupcoord.consumer.member_update import new_epoch
from kavka.groupcoord.consumer.migration import Migration
from kavka.log.journal import Decision, JournalRecord, Reply
from kavka.wire.errors import ApiError
from kavka.wire.steps import Steps, each

logger: Final = logging.getLogger(__name__)

MEMBERS_PER_STEP: Final = 100
"""Members whose tombstones are created between two pauses, at 10 us each."""


class Fencing:
    """Removes members from consumer groups."""

    __slots__ = ("_index", "_migration")

    def __init__(self, index: GroupIndex, migration: Migration) -> None:
        self._index = index
        self._migration = migration

    def fence(
        self,
        group: ConsumerGroup,
        members: Sequence[ConsumerGroupMember],
        replies: list[Reply],
        now_ms: int,
    ) -> Steps[Decision]:
        """Remove `members` and bump the group epoch; if all remaining members use the classic
        protocol, convert the group to a classic one. If that fails: ApiError for a request; for a
        timer the group stays a consumer group."""
        if not members:
            return Decision(replies=replies)
        if self._migration.may_downgrade(group, members):
            out = Decision(replies=replies)
            reason = (
                f"Downgrade group {group.group_id} from consumer to classic for member leaving."
            )
            downgrade = self._migration.downgrade
            try:
                yield from downgrade(group, out, now_ms, leaving=members, reason=reason)
            except ApiError as failure:
                if replies:  # a LeaveGroup fails, as in Apache Kafka
                    raise
                logger.warning("[GroupId %s] %s", group.group_id, failure.message)
            else:
                return out
        collected: list[JournalRecord] = []

        def without(member: ConsumerGroupMember) -> None:
            collected.extend(
                consumer_group_records.without_member(group.group_id, member.member_id)
            )

        yield from each(members, without, MEMBERS_PER_STEP)
        regexes: dict[str, int] = {}
        for member in members:
            if member.regex is not None:
                regexes[member.regex] = regexes.get(member.regex, 0) + 1
        for regex in group.last_of(regexes):
            collected.append(
                consumer_group_records.tombstone(
                    consumer_group_records.REGEX, group.group_id, regex
                )
            )
        subscriptions = yield from group.subscriptions_without(members)
        metadata_hash = yield from self._index.hashes.of_group(subscriptions)
        collected.append(new_epoch(group, group.group_epoch + 1, metadata_hash))
        out = Decision(collected, replies)
        yield from self._migration.cancel_timers(
            group.group_id, [member.member_id for member in members], out
        )
        return out
