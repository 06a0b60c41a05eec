"""Members that leave a group, or are put out of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.groupcoord.consumer import records
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.group_index import GroupIndex
from kavka.groupcoord.consumer.member import Member
from kavka.groupcoord.consumer.member_update import new_epoch
from kavka.groupcoord.consumer.migration import Migration
from kavka.log.journal import Decision, Record, Reply
from kavka.wire.errors import ApiError
from kavka.wire.steps import Slices, each

logger: Final = logging.getLogger(__name__)

MEMBERS_A_STEP: Final = 100
"""Members whose going is written down in one go, at 10 us each."""


class Fencing:
    """The one way out of a group."""

    __slots__ = ("_index", "_migration")

    def __init__(self, index: GroupIndex, migration: Migration) -> None:
        self._index = index
        self._migration = migration

    def fence(
        self, group: ConsumerGroup, members: Sequence[Member], replies: list[Reply], now_ms: int
    ) -> Slices[Decision]:
        """Without `members` the group has a new epoch; if those that stay use the classic
        protocol, it becomes a classic group. ApiError: it can't, and somebody asked for it; where
        a deadline has passed, it stays as it is without them."""
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
            except ApiError as refusal:
                if replies:  # who wants to leave is told, as by Apache Kafka
                    raise
                logger.warning("[GroupId %s] %s", group.group_id, refusal.message)
            else:
                return out
        collected: list[Record] = []

        def without(member: Member) -> None:
            collected.extend(records.without_member(group.group_id, member.member_id))

        yield from each(members, without, MEMBERS_A_STEP)
        regexes: dict[str, int] = {}
        for member in members:
            if member.regex is not None:
                regexes[member.regex] = regexes.get(member.regex, 0) + 1
        for regex in group.last_of(regexes):
            collected.append(records.tombstone(records.REGEX, group.group_id, regex))
        subscriptions = yield from group.subscriptions_without(members)
        metadata_hash = yield from self._index.hashes.of_group(subscriptions)
        collected.append(new_epoch(group, group.group_epoch + 1, metadata_hash))
        out = Decision(collected, replies)
        yield from self._migration.cancel_timers(
            group.group_id, [one.member_id for one in members], out
        )
        return out
