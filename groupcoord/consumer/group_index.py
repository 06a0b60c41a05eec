"""The consumer groups of a partition, with indexes, timers and caches that records don't have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from kavka.groupcoord.consumer import regexes
from kavka.groupcoord.consumer.group import ConsumerGroup
from kavka.groupcoord.consumer.hashing import TopicHashes
from kavka.groupcoord.consumer.member import ConsumerGroupMember
from kavka.groupcoord.consumer.regexes import Resolution
from kavka.groupcoord.settings import GroupSettings
from kavka.groupcoord.state import GroupsState
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each

SESSION: Final = "session"
REBALANCE: Final = "rebalance"
JOIN: Final = "join"
SYNC: Final = "sync"
REGEX: Final = "regex"

TOPICS_PER_STEP: Final = 500
"""Changed topics processed between two pauses."""

_OF_A_MEMBER: Final = (SESSION, REBALANCE, JOIN, SYNC)

Deadlines: TypeAlias = Sequence[tuple[str, str, str, int]]
"""(timer kind, group id, member id, when)."""


class GroupIndex:
    """The consumer groups of one partition."""

    __slots__ = (
        "_subscribers",
        "_with_regexes",
        "hashes",
        "resolutions",
        "state",
        "topics_version",
    )

    def __init__(self, state: GroupsState) -> None:
        self.state: Final = state
        self.hashes: Final = TopicHashes(state.topics)
        self.resolutions: Final[dict[str, Resolution]] = {}
        """{group id: the running resolution of its regexes}."""
        self.topics_version = 0
        """Grows when topics are created; in ms since 1970, so that it also grows across brokers."""
        self._subscribers: dict[str, dict[str, None]] = {}
        self._with_regexes: dict[str, None] = {}

    def settings(self) -> GroupSettings:
        return self.state.settings()

    # -- groups ----------------------------------------------------------------------------------

    def group(self, group_id: str) -> ConsumerGroup:
        """ApiError GROUP_ID_NOT_FOUND, also for a group of another kind."""
        found = self.state.groups.get(group_id)
        if isinstance(found, ConsumerGroup):
            return found
        if found is None:
            raise not_found(f"Group {group_id} not found.")
        raise not_found(f"Group {group_id} is not a consumer group.")

    def find(
        self, group_id: str, member_id: str
    ) -> tuple[ConsumerGroup, ConsumerGroupMember] | None:
        group = self.state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return None
        member = group.members.get(member_id)
        return None if member is None else (group, member)

    # -- topics -> groups ------------------------------------------------------------------------

    def subscribed(self, group: ConsumerGroup, before: Collection[str]) -> None:
        """Update the index: a group's subscriptions have changed."""
        now, group_id = group.subscriptions, group.group_id
        for topic in before:
            if topic not in now:
                self._unsubscribe(group_id, topic)
        for topic in now:
            self._subscribers.setdefault(topic, {})[group_id] = None
        if group.regexes:
            self._with_regexes[group_id] = None
        else:
            self._with_regexes.pop(group_id, None)

    def _unsubscribe(self, group_id: str, topic: str) -> None:
        subscribers = self._subscribers.get(topic)
        if subscribers is None:
            return
        subscribers.pop(group_id, None)
        if not subscribers:
            del self._subscribers[topic]
            self.hashes.invalidate(topic)

    def topics_changed(self, topics: Iterable[str], now_ms: int) -> Steps[None]:
        """Topics were created, deleted or changed: subscribed groups check them at the next
        heartbeat. Done in slices."""
        rest = iter(topics)
        there: list[str] = []
        while some := list(islice(rest, TOPICS_PER_STEP)):
            for topic in some:
                self.hashes.invalidate(topic)
                for group_id in self._subscribers.get(topic, ()):
                    group = self.state.groups.get(group_id)
                    if isinstance(group, ConsumerGroup):
                        group.refresh_topics = True
            there += [
                topic for topic in some if self.state.topics.partition_count(topic) is not None
            ]
            yield None
        for is_new in self._find_new(there):
            if is_new:
                self.topics_version = max(now_ms, self.topics_version + 1)
                return
            yield None

    def _find_new(self, topics: Sequence[str]) -> Iterator[bool]:
        """For each slice, whether a regex matches a topic that its last resolution did not
        include."""
        for group_id in list(self._with_regexes):
            group = self.state.groups.get(group_id)
            resolved = list(group.resolved.items()) if isinstance(group, ConsumerGroup) else ()
            for expression, known in resolved:
                pattern = regexes.compiled(expression)
                if pattern is None:
                    continue
                names = frozenset(known.topics)
                rest = (topic for topic in topics if topic not in names)
                while some := list(islice(rest, regexes.names_a_slice(pattern))):
                    yield any(pattern.fullmatch(topic) is not None for topic in some)

    # -- deadlines -------------------------------------------------------------------------------

    def set_timer(self, timer_kind: str, group_id: str, member_id: str, at_ms: int) -> None:
        self.state.timers.set(("consumer", timer_kind, group_id, member_id), at_ms)

    def set_timer_once(self, timer_kind: str, group_id: str, member_id: str, at_ms: int) -> None:
        """Set a timer unless it is already set."""
        if ("consumer", timer_kind, group_id, member_id) not in self.state.timers:
            self.set_timer(timer_kind, group_id, member_id, at_ms)

    def cancel_timer(self, timer_kind: str, group_id: str, member_id: str) -> None:
        self.state.timers.cancel(("consumer", timer_kind, group_id, member_id))

    def cancel_member_timers(self, group_id: str, member_ids: Iterable[str]) -> Steps[Deadlines]:
        """Cancel all timers of members that are about to be removed; returns them."""
        taken: list[tuple[str, str, str, int]] = []

        def take(member_id: str) -> None:
            for timer_kind in _OF_A_MEMBER:
                at_ms = self.state.timers.at(("consumer", timer_kind, group_id, member_id))
                if at_ms is not None:
                    taken.append((timer_kind, group_id, member_id, at_ms))
                    self.cancel_timer(timer_kind, group_id, member_id)

        yield from each(member_ids, take)
        return taken

    def restore_timers(self, taken: Deadlines) -> None:
        """Restore the timers of members whose removal failed, so that they still expire."""
        for timer_kind, group_id, member_id, at_ms in taken:
            if self.find(group_id, member_id) is not None:
                self.set_timer_once(timer_kind, group_id, member_id, at_ms)

    def keep_alive(self, group: ConsumerGroup, member: ConsumerGroupMember, now_ms: int) -> None:
        """Reset a member's session timer."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self.session_timeout_ms(group.group_id)
        self.set_timer(SESSION, group.group_id, member.member_id, now_ms + timeout_ms)

    # -- settings of one group -------------------------------------------------------------------

    def session_timeout_ms(self, group_id: str) -> int:
        settings = self.settings()
        text = self.state.configs(group_id).get("consumer.session.timeout.ms")
        if text is None:
            return settings.group_consumer_session_timeout_ms
        least_ms = settings.group_consumer_min_session_timeout_ms
        return _between(least_ms, int(text), settings.group_consumer_max_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        settings = self.settings()
        text = self.state.configs(group_id).get("consumer.heartbeat.interval.ms")
        if text is None:
            return settings.group_consumer_heartbeat_interval_ms
        least_ms = settings.group_consumer_min_heartbeat_interval_ms
        return _between(least_ms, int(text), settings.group_consumer_max_heartbeat_interval_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        settings = self.settings()
        text = self.state.configs(group_id).get("consumer.assignment.interval.ms")
        if text is None:
            return settings.group_consumer_assignment_interval_ms
        least_ms = settings.group_consumer_min_assignment_interval_ms
        return _between(least_ms, int(text), settings.group_consumer_max_assignment_interval_ms)


def _between(least_ms: int, time_ms: int, most_ms: int) -> int:
    """A group's dynamic config within the broker's bounds, which may have changed since."""
    return max(least_ms, min(time_ms, most_ms))


def not_found(message: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
