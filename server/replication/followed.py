"""The partitions that this broker follows of one leader, as a state machine without I/O: which of
them the next fetch asks for, and which have to be looked at before it.

A leader may have thousands of partitions of which few change between two fetches. So work is by
what has changed: a partition is looked at after it was answered, or its replica has changed, and
before each fetch only while it waits for a time or for the quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from kavka.server.replica.following import Following
from kavka.server.replica.replica import Replica
from kavka.server.replication.fetch_session import (
    FetchRequestPartition,
    FetchSession,
    TopicIdPartition,
)

Key: TypeAlias = tuple[str, int]
"""Topic and index."""


class Followed:
    """A partition that is fetched in one leader epoch."""

    __slots__ = (
        "failures",
        "following",
        "lag",
        "leader_epoch",
        "topic_id_partition",
        "replica",
        "retry_at_s",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.topic_id_partition: TopicIdPartition = (replica.topic_id.bytes, replica.key[1])
        self.leader_epoch = replica.partition.leader_epoch
        self.following = Following(replica)
        self.retry_at_s = 0.0
        """It is left out until then: infinite when the leader has answered FENCED_LEADER_EPOCH, as
        there is a newer leader epoch, which the next LeaderAndIsr brings."""
        self.failures = 0
        """Failures since the last success."""
        self.lag: int | None = None
        """How many records it lacked up to the leader's high watermark after the last response with
        records; None before the first response. At 0 it counts as in sync for the throttle, as in
        Apache Kafka."""

    def note_lag(self, high_watermark: int) -> None:
        """Update `lag`, after a response with records, or the first one."""
        self.lag = max(high_watermark - self.following.offset, 0)

    def requested(self) -> FetchRequestPartition:
        """What to ask for next."""
        following = self.following
        return FetchRequestPartition(
            self.leader_epoch,
            following.offset,
            following.last_epoch,
            self.replica.log.start_offset,
        )


class FollowedPartitions:
    """What is followed of one leader, and what `session` asks for of it."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session
        self._followed: dict[Key, Followed] = {}
        self._changed: dict[Key, Followed] = {}
        """Those of which something may have changed since they were last looked at."""
        self._watched: dict[Key, Followed] = {}
        """Those that wait for a time or for the quota, or may have to: looked at each time."""
        self._removed: list[Followed] = []
        """Those that are not followed any more, but that the session may still ask for."""
        self._fetched: dict[TopicIdPartition, Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def fetched(self) -> Mapping[TopicIdPartition, Followed]:
        """What the next request asks for, or the one in flight: it only changes by the methods that
        are for the time between two requests."""
        return self._fetched

    def add(self, replica: Replica) -> None:
        """Follow a partition, in its present leader epoch."""
        self.remove(replica.key)
        self._followed[replica.key] = self._changed[replica.key] = Followed(replica)

    def remove(self, key: Key) -> None:
        """Follow a partition no longer. The request in flight has it still."""
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._changed.pop(key, None)
            self._watched.pop(key, None)
            self._removed.append(followed)

    def clear(self) -> None:
        """Follow nothing any more."""
        for key in list(self._followed):
            self.remove(key)

    def changed(self, key: Key) -> None:
        """Something may have changed of a partition, if it is followed: look at it again."""
        followed = self._followed.get(key)
        if followed is not None:
            self._changed[key] = followed

    def is_followed(self, followed: Followed) -> bool:
        """Whether it is, in this leader epoch."""
        return self._followed.get(followed.replica.key) is followed

    def to_look_at(self) -> Iterator[Followed]:
        """Those to look at before the next request."""
        yield from self._changed.values()
        for key, followed in self._watched.items():
            if key not in self._changed:
                yield followed

    # -- between two requests -------------------------------------------------------------

    def look(self) -> list[Followed]:
        """Those to look at now: for each `fetch` or `leave_out` is called, if it `is_followed`
        still by then."""
        self.forget_removed()
        found = list(self.to_look_at())
        self._changed.clear()
        return found

    def forget_removed(self) -> None:
        """Do not ask any more for what was removed."""
        for followed in self._removed:
            self._forget(followed)
        self._removed.clear()

    def fetch(self, followed: Followed, *, watch: bool) -> None:
        """Ask for it in the next request. `watch`: it may have to be left out later although
        nothing has changed of it."""
        self._fetched[followed.topic_id_partition] = followed
        self._session.fetch(followed.topic_id_partition, followed.requested())
        self._watch(followed, watch)

    def leave_out(self, followed: Followed, *, watch: bool) -> None:
        """Do not ask for it in the next request. `watch`: it may be due later although nothing has
        changed of it."""
        self._forget(followed)
        self._watch(followed, watch)

    def _forget(self, followed: Followed) -> None:
        if self._fetched.get(followed.topic_id_partition) is followed:
            del self._fetched[followed.topic_id_partition]
            self._session.forget(followed.topic_id_partition)

    def _watch(self, followed: Followed, watch: bool) -> None:
        if watch:
            self._watched[followed.replica.key] = followed
        else:
            self._watched.pop(followed.replica.key, None)
