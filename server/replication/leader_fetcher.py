"""Fetches from one other broker the partitions that it leads and this broker follows.

One request is in flight at a time. Each partition's part of a response is processed by `Following`.
A partition that fails is left out of the requests for a while, and the others go on. Requests and
responses name only the partitions of which something has changed (KIP-227, `fetch_session`).

Partitions whose replication is throttled (KIP-73) are left out while they are not in sync and the
quota is exceeded.

A fetch tells the leader which records the follower has. So where records have to be flushed
(`flush.messages`, `kavka.durability=fsync`) the next fetch is sent only when they are on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.client.broker_client import BrokerClient
from kavka.client.errors import UnsupportedVersion
from kavka.log.errors import StorageError
from kavka.seams import Clock, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.replica.following import Divergence, Fetched, Following
from kavka.server.replica.replica import Replica
from kavka.server.replica.replication_quotas import ReplicationQuota
from kavka.server.replication.broker_clients import Peers
from kavka.server.replication.fetch_session import Asked, FetchSession, Place, SessionRequest
from kavka.wire.apis import fetch
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, int]


class FetcherSettings(NamedTuple):
    """The settings `replica.fetch.*`, and this broker's id and epoch."""

    broker_id: int
    broker_epoch: Callable[[], int]
    wait_max_ms: int
    min_bytes: int
    response_max_bytes: int
    partition_max_bytes: int
    backoff_max_s: float
    """The longest time that a partition that fails is left out."""

    @classmethod
    def of(cls, settings: BrokerSettings, broker_epoch: Callable[[], int]) -> FetcherSettings:
        """Those of a broker."""
        return cls(
            settings.broker_id,
            broker_epoch,
            settings.replica_fetch_wait_max_ms,
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            settings.replica_fetch_max_bytes,
            settings.replica_fetch_backoff_ms / 1000,
        )


PARTITIONS_PER_STEP: Final = 1000
"""Partitions checked between two pauses, at a microsecond each."""

NEVER_S: Final = float("inf")
DOUBLED_MAX: Final = 20

BACKOFF_S: Final = 0.02
"""How long a partition that fails is left out first; then twice as long, and so on. The usual
reason is that the leader has not received LeaderAndIsr yet."""


class _Followed:
    """A partition that is fetched in one leader epoch."""

    __slots__ = (
        "_asked",
        "failures",
        "following",
        "is_failed",
        "lag",
        "leader_epoch",
        "place",
        "replica",
        "retry_at_s",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.place: Place = (replica.topic_id.bytes, replica.key[1])
        self._asked: Asked | None = None
        self.leader_epoch = replica.partition.leader_epoch
        self.following = Following(replica)
        self.retry_at_s = 0.0
        self.failures = 0
        """Failures since the last success."""
        self.is_failed = False
        """Whether the leader has answered FENCED_LEADER_EPOCH: there is a newer leader epoch, which
        the next LeaderAndIsr brings. Until then the partition is not fetched."""
        self.lag: int | None = None
        """How many records it lacked up to the leader's high watermark after the last response with
        records; None before the first response. At 0 it counts as in sync for the throttle, as in
        Apache Kafka."""

    def note_lag(self, high_watermark: int) -> None:
        """Update `lag`, after a response with records, or the first one."""
        self.lag = max(high_watermark - self.following.offset, 0)

    def asked(self) -> Asked:
        """What to ask for next; the same object while nothing has changed."""
        known, log = self._asked, self.replica.log
        if known is None or known.offset != log.end_offset or known.log_start != log.start_offset:
            following = self.following
            known = self._asked = Asked(
                self.leader_epoch, following.offset, following.last_epoch, log.start_offset
            )
        return known

    def log_may_have_changed(self) -> None:
        """Compute `asked` anew: the log may end where it did, but with another epoch."""
        self._asked = None


class LeaderFetcher:
    """Fetches from broker `leader`. It has a task while it has partitions."""

    def __init__(
        self,
        leader: int,
        settings: FetcherSettings,
        peers: Peers,
        quota: ReplicationQuota,
        *,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._leader = leader
        self._settings = settings
        self._peers = peers
        self._quota = quota
        self._clock = clock
        self._tasks = tasks
        self._partitions: dict[Key, _Followed] = {}
        self._session = FetchSession()
        self._task: asyncio.Task[None] | None = None
        self._is_fetching = False
        """Whether a request is in flight that has all partitions. `add` clears it when it breaks
        off the request because there is a new partition."""
        self._additions = 0
        self._changed: asyncio.Future[None] | None = None
        """What the task waits for, if it has nothing to fetch."""
        self._is_woken = False
        """Whether something has changed since the task last began to check its partitions."""
        self._next_due_s = NEVER_S
        """When the first of the partitions is due that were not due at the last check."""
        self._has_throttled = False
        """Whether any was left out at the last check because of the quota."""

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, replica: Replica) -> None:
        """Follow a partition, in its present leader epoch."""
        self._partitions[replica.key] = _Followed(replica)
        self._additions += 1
        replica.flush_if_awaited()  # what an earlier process wrote
        if self._is_fetching:  # it may take replica.fetch.wait.max.ms to be answered
            self._is_fetching = False
            self._peers.disconnect(self._leader)
        self.wake()
        if self._task is None:
            name = f"fetcher from broker {self._leader}"
            self._task = self._tasks.spawn(self._run(), name=name)

    def remove(self, key: Key) -> None:
        """Follow a partition no longer."""
        self._partitions.pop(key, None)
        self.wake()

    def wake(self) -> None:
        """Something may have changed that the task waits for: partitions, or the leader's
        address."""
        self._is_woken = True
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def close(self) -> None:
        """Follow nothing any more."""
        self._partitions.clear()
        self.wake()

    async def _run(self) -> None:
        try:
            while self._partitions:
                await self._flushes()
                additions = self._additions
                due = await self._due()
                if additions != self._additions:
                    continue  # look at those, too, before a request that may wait long
                client = self._peers.client(self._leader)
                if not due or client is None:
                    await self._until_due()
                    continue
                await self._fetch(client, due)
        finally:
            self._task = None
            self._session.failed()
            self._peers.disconnect(self._leader)

    async def _flushes(self) -> None:
        """Wait for the flushes of records that must be on the disk before the leader hears of them.
        The other partitions wait too, but no longer than `replica.fetch.wait.max.ms`: a request
        without the flushed partitions might take that long to be answered."""
        ends_s = self._clock.monotonic_s() + self._settings.wait_max_ms / 1000
        while True:
            self._is_woken = False
            if not self._flush_first() or self._clock.monotonic_s() >= ends_s:
                return
            await self._wait(ends_s)

    def _flush_first(self) -> bool:
        """Flush the logs whose records the leader may hear of only when they are flushed; whether
        there is one."""
        awaits = False
        for one in self._partitions.values():
            if not one.is_failed and one.replica.is_served and one.replica.partition.awaits_flush:
                one.replica.flush_if_awaited()
                awaits = True
        return awaits

    async def _due(self) -> list[_Followed]:
        """The partitions to fetch now."""
        now_s = self._clock.monotonic_s()
        self._has_throttled = False
        self._next_due_s = NEVER_S
        due = []
        for number, one in enumerate(list(self._partitions.values()), 1):
            if number % PARTITIONS_PER_STEP == 0:
                await self._tasks.sleep(0)
            if one.is_failed or one.replica.partition.awaits_flush:
                continue
            if one.retry_at_s > now_s:
                self._next_due_s = min(self._next_due_s, one.retry_at_s)
                continue
            if self._is_throttled(one):
                self._has_throttled = True
                continue
            if not one.following.is_prepared:
                try:
                    await one.following.prepare(self._tasks)
                except (OSError, StorageError, ApiError) as failure:
                    self._leave_out(one, f"its log can't be prepared: {failure}")
                    self._next_due_s = min(self._next_due_s, one.retry_at_s)
                    continue
            due.append(one)
        return due

    def _is_throttled(self, one: _Followed) -> bool:
        """Whether it has to wait for the quota. A replica in sync never waits, so that it stays in
        the ISR."""
        return one.replica.throttled_as_follower and one.lag != 0 and self._quota.is_exceeded

    async def _until_due(self) -> None:
        """Wait for a change, or until the first partition is due that was not due at the last
        check; that time may have passed already."""
        until_s = self._next_due_s
        if self._has_throttled:
            until_s = min(until_s, self._quota.free_at_s())
        await self._wait(until_s)

    async def _wait(self, until_s: float) -> None:
        """Wait for a change since the last check, or until this time."""
        if self._is_woken:
            return
        self._changed = self._tasks.future()
        timer = None
        if until_s < NEVER_S:
            wait_s = max(until_s - self._clock.monotonic_s(), 0.0)
            timer = self._tasks.call_later(wait_s, self.wake)
        try:
            await self._changed
        finally:
            self._changed = None
            if timer is not None:
                timer.cancel()

    async def _fetch(self, client: BrokerClient, due: list[_Followed]) -> None:
        session = self._session
        by_place = {one.place: one for one in due}
        request = self._request(session.request({one.place: one.asked() for one in due}))
        self._is_fetching = True
        try:
            response = await client.ask(fetch.API, request)
        except (ConnectionError, UnsupportedVersion) as failure:
            session.failed()
            if not self._is_fetching:
                return  # there are more partitions now
            logger.debug("can't fetch from broker %d: %s", self._leader, failure)
            self._leave_out_all(due)
            return
        finally:
            self._is_fetching = False
        if response.error_code:
            if not session.refused(response.error_code):
                name = ErrorCode(response.error_code).name
                logger.warning("broker %d refused a fetch: %s", self._leader, name)
                self._leave_out_all(due)
            return
        answers: dict[Place, Any] = {
            (topic.topic_id.bytes, answer.partition_index): answer
            for topic in response.responses
            for answer in topic.partitions
        }
        if not session.answered(response.session_id, answers):
            logger.warning(
                "broker %d answered a fetch for other partitions than were asked for", self._leader
            )
            self._leave_out_all(due)
            return
        for place, answer in answers.items():
            one = by_place[place]
            if self._is_current(one):
                one.log_may_have_changed()
                await self._take(client, one, answer)

    def _is_current(self, one: _Followed) -> bool:
        """Whether it is still followed, in the epoch in which it was asked for."""
        partition = one.replica.partition
        return (
            self._partitions.get(one.replica.key) is one
            and one.replica.is_served
            and not partition.is_leader
            and partition.leader_epoch == one.leader_epoch
        )

    async def _take(self, client: BrokerClient, one: _Followed, answer: Any) -> None:
        code = answer.error_code
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            one.is_failed = True  # the next LeaderAndIsr brings the new one
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._start_over(client, one)
        elif code:
            self._leave_out(one, ErrorCode(code).name)
        else:
            diverging = answer.diverging_epoch
            fetched = Fetched(
                answer.records or b"",
                answer.high_watermark,
                answer.log_start_offset,
                Divergence(diverging.epoch, diverging.end_offset)
                if diverging is not None and diverging.epoch >= 0
                else None,
            )
            one.failures = 0
            if one.replica.throttled_as_follower:
                self._quota.record(len(fetched.records))
            before = one.following.offset
            try:
                await one.following.take(fetched, self._tasks)
            except (ApiError, StorageError, OSError) as failure:
                self._leave_out(one, str(failure))
            else:
                if fetched.divergence is None and (
                    one.lag is None or one.following.offset != before
                ):
                    one.note_lag(fetched.high_watermark)

    async def _start_over(self, client: BrokerClient, one: _Followed) -> None:
        """The leader has nothing at this offset: see where its log begins and ends."""
        try:
            begin, end = await one.following.leader_offsets(client)
            if self._is_current(one):
                await one.following.start_over(begin, end, self._tasks)
        except (ConnectionError, ApiError, StorageError, OSError) as failure:
            self._leave_out(one, str(failure))

    def _leave_out_all(self, asked: Iterable[_Followed]) -> None:
        now_s, backoff_max_s = self._clock.monotonic_s(), self._settings.backoff_max_s
        for one in asked:
            one.retry_at_s = now_s + min(BACKOFF_S * 2**one.failures, backoff_max_s)
            one.failures = min(one.failures + 1, DOUBLED_MAX)

    def _leave_out(self, one: _Followed, why: str) -> None:
        logger.info(
            "pausing the fetch of %s-%d from broker %d: %s",
            *one.replica.key,
            self._leader,
            why,
        )
        self._leave_out_all((one,))

    def _wait_ms(self) -> int:
        """How long the leader may wait with its response: at most until another partition is due.
        That may be one of a new topic, of which its leader had not heard at the last attempt."""
        wait_max_ms = self._settings.wait_max_ms
        left_s = self._next_due_s - self._clock.monotonic_s()
        return wait_max_ms if left_s * 1000 >= wait_max_ms else max(round(left_s * 1000), 1)

    def _request(self, asked: SessionRequest) -> fetch.FetchRequest:
        settings = self._settings
        by_topic: dict[bytes, list[fetch.FetchedPartition]] = {}
        for (topic_id, index), one in asked.asked.items():
            by_topic.setdefault(topic_id, []).append(
                fetch.FetchedPartition(
                    index,
                    one.leader_epoch,
                    one.offset,
                    one.last_epoch,
                    one.log_start,
                    settings.partition_max_bytes,
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in asked.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        return fetch.FetchRequest(
            fetch.ReplicaState(settings.broker_id, settings.broker_epoch()),
            self._wait_ms(),
            settings.min_bytes,
            settings.response_max_bytes,
            [fetch.FetchedTopic(UUID(bytes=one), places) for one, places in by_topic.items()],
            asked.epoch,
            asked.session_id,
            forgotten_topics_data=[
                fetch.ForgottenTopic(UUID(bytes=one), indexes) for one, indexes in forgotten.items()
            ],
        )
