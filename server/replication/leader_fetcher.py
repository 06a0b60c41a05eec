"""Fetches from one other broker the partitions that it leads and this broker follows.

One request is in flight at a time. Records are appended while they are views of the response, which
is not copied; where they can't be appended, `Following` truncates the log or starts it over.
A partition that fails is left out of the requests for a while, and the others go on. Requests and
responses name only the partitions of which something has changed (KIP-227, `fetch_session`).

Partitions whose replication is throttled (KIP-73) are left out while they are not in sync and the
quota is exceeded.

A fetch tells the leader which records the follower has. So where records have to be flushed
(`flush.messages`, `kavka.durability=fsync`) the next fetch is sent only when they are on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.client.broker_client import BrokerClient
from kavka.client.errors import UnsupportedVersion
from kavka.log.errors import StorageError
from kavka.log.follower_append import UnexpectedOffsetError
from kavka.seams import Clock, Tasks
from kavka.server.config import BrokerSettings
from kavka.server.replica.following import Divergence, RecordsBelowLogEnd
from kavka.server.replica.replica import Replica
from kavka.server.replica.replication_quotas import ReplicationQuota
from kavka.server.replication.broker_clients import Peers
from kavka.server.replication.fetch_session import FetchSession, SessionRequest, TopicIdPartition
from kavka.server.replication.followed import Followed, FollowedPartitions, Key
from kavka.wire.apis import fetch
from kavka.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)


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


PARTITIONS_PER_STEP: Final = 500
"""Partitions looked at between two pauses, at 2 us each."""

ADDING_S: Final = 1.0
"""So long after a partition was added, more are expected: a LeaderAndIsr may bring thousands."""

ADDED_WAIT_MS: Final = 20
"""How long the leader may wait with a response while more partitions are expected, or 1 ms for 20
partitions: the next request has the new ones. A response that is waited for longer is not waited
for any more, but that costs a connection and a session, so it is done once."""

NEVER_S: Final = float("inf")
DOUBLED_MAX: Final = 20

BACKOFF_S: Final = 0.02
"""How long a partition that fails is left out first; then twice as long, and so on. The usual
reason is that the leader has not received LeaderAndIsr yet."""


_Rest: TypeAlias = "tuple[Followed, Divergence | RecordsBelowLogEnd | ErrorCode]"
"""A partition to which nothing can be appended as it is."""


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
        self._session = FetchSession()
        self._partitions = FollowedPartitions(self._session)
        self._task: asyncio.Task[None] | None = None
        self._is_fetching = False
        """Whether a request is in flight that has all partitions. `add` clears it when it breaks
        off the request because there is a new partition."""
        self._responds_soon = False
        """Whether that request waits no longer than a new partition may."""
        self._additions = 0
        self._added_s = -NEVER_S
        """When the last of them was added."""
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
        self._partitions.add(replica)
        self._additions += 1
        self._added_s = self._clock.monotonic_s()
        replica.flush_if_awaited()  # what an earlier process wrote
        if self._is_fetching and not self._responds_soon:
            self._is_fetching = False
            self._peers.disconnect(self._leader)
        self.wake()
        if self._task is None:
            name = f"fetcher from broker {self._leader}"
            self._task = self._tasks.spawn(self._run(), name=name)

    def remove(self, key: Key) -> None:
        """Follow a partition no longer."""
        self._partitions.remove(key)
        self.wake()

    def changed(self, key: Key) -> None:
        """Something of a partition has changed that no response brought: its log has been flushed
        or starts later, or it is throttled or not any more."""
        self._partitions.changed(key)
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
                await self._look()
                if additions != self._additions:
                    continue  # look at those, too, before a request that may wait long
                client = self._peers.client(self._leader)
                if not self._partitions.fetched or client is None:
                    await self._until_due()
                    continue
                await self._fetch(client)
        finally:
            self._task = None
            self._partitions.forget_removed()
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
        for followed in self._partitions.to_look_at():
            is_awaited = followed.retry_at_s < NEVER_S and followed.replica.is_served
            if is_awaited and followed.replica.partition.awaits_flush:
                followed.replica.flush_if_awaited()
                awaits = True
        return awaits

    async def _look(self) -> None:
        """Find out what to fetch now."""
        now_s = self._clock.monotonic_s()
        self._has_throttled = False
        self._next_due_s = NEVER_S
        for number, followed in enumerate(self._partitions.look(), 1):
            if number % PARTITIONS_PER_STEP == 0:
                await self._tasks.sleep(0)
            is_due = self._is_due(followed, now_s)
            if is_due and not followed.following.is_prepared:
                is_due = await self._prepare(followed)
            if not self._partitions.is_followed(followed):
                continue
            may_be_throttled = self._may_be_throttled(followed)
            if is_due and not (may_be_throttled and self._quota.is_exceeded):
                self._partitions.fetch(followed, watch=may_be_throttled)
                continue
            if is_due:
                self._has_throttled = True
            elif followed.retry_at_s > now_s:
                self._next_due_s = min(self._next_due_s, followed.retry_at_s)
            self._partitions.leave_out(followed, watch=followed.retry_at_s < NEVER_S)

    @staticmethod
    def _is_due(followed: Followed, now_s: float) -> bool:
        return followed.retry_at_s <= now_s and not followed.replica.partition.awaits_flush

    async def _prepare(self, followed: Followed) -> bool:
        """Whether its log can be fetched into."""
        try:
            await followed.following.prepare(self._tasks)
        except (OSError, StorageError, ApiError) as failure:
            self._leave_out(followed, f"its log can't be prepared: {failure}")
            return False
        return True

    @staticmethod
    def _may_be_throttled(followed: Followed) -> bool:
        """Whether it has to wait while the quota is exceeded. A replica in sync never waits, so
        that it stays in the ISR."""
        return followed.replica.throttled_as_follower and followed.lag != 0

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

    async def _fetch(self, client: BrokerClient) -> None:
        session, fetched = self._session, self._partitions.fetched
        self._responds_soon = self._clock.monotonic_s() - self._added_s < ADDING_S
        request = self._request(session.request(), fetched)
        self._is_fetching = True
        try:
            rest: Sequence[_Rest] = await client.ask(fetch.API, request, take=self._take)
        except (ConnectionError, UnsupportedVersion) as failure:
            session.failed()
            if not self._is_fetching:
                return  # there are more partitions now
            logger.debug("can't fetch from broker %d: %s", self._leader, failure)
            self._leave_out_all(fetched.values())
            return
        finally:
            self._is_fetching = False
        for followed, mismatch in rest:
            if self._is_current(followed):
                await self._take_rest(client, followed, mismatch)

    def _take(self, response: Any) -> Sequence[_Rest]:
        """Append what was fetched, while the records are views. Returns what takes longer."""
        self._is_fetching = False
        session, fetched = self._session, self._partitions.fetched
        if response.error_code:
            if not session.refused(response.error_code):
                name = ErrorCode(response.error_code).name
                logger.warning("broker %d refused a fetch: %s", self._leader, name)
                self._leave_out_all(fetched.values())
            return ()
        partition_responses: dict[TopicIdPartition, Any] = {
            (topic.topic_id.bytes, partition_response.partition_index): partition_response
            for topic in response.responses
            for partition_response in topic.partitions
        }
        if not session.responded(response.session_id, partition_responses):
            logger.warning(
                "broker %d answered a fetch for other partitions than were asked for", self._leader
            )
            self._leave_out_all(fetched.values())
            return ()
        rest: list[_Rest] = []
        for topic_id_partition, partition_response in partition_responses.items():
            followed = fetched[topic_id_partition]
            if self._is_current(followed):
                self._partitions.changed(followed.replica.key)
                mismatch = self._take_one(followed, partition_response)
                if mismatch is not None:
                    rest.append((followed, mismatch))
        return rest

    def _is_current(self, followed: Followed) -> bool:
        """Whether it is still followed, in the epoch in which it was asked for."""
        partition = followed.replica.partition
        return (
            self._partitions.is_followed(followed)
            and followed.replica.is_served
            and not partition.is_leader
            and partition.leader_epoch == followed.leader_epoch
        )

    def _take_one(
        self, followed: Followed, response: Any
    ) -> Divergence | RecordsBelowLogEnd | ErrorCode | None:
        """Append what was fetched of one partition. Returns what has to be done instead."""
        code = response.error_code
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            followed.retry_at_s = NEVER_S  # the next LeaderAndIsr brings the new one
            return None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if code:
            self._leave_out(followed, ErrorCode(code).name)
            return None
        followed.failures = 0
        diverging, records = response.diverging_epoch, response.records or b""
        if diverging is not None and diverging.epoch >= 0:
            return Divergence(diverging.epoch, diverging.end_offset)
        if followed.replica.throttled_as_follower:
            self._quota.record(len(records))
        before = followed.following.offset
        try:
            followed.replica.append_fetched(
                memoryview(records), response.high_watermark, response.log_start_offset
            )
        except UnexpectedOffsetError as failure:
            failure.with_traceback(None)  # its frames have views of the response
            start, high_watermark = response.log_start_offset, response.high_watermark
            return RecordsBelowLogEnd(failure, bytes(records), high_watermark, start)
        except (ApiError, StorageError, OSError) as failure:
            self._leave_out(followed, str(failure))
        else:
            if followed.lag is None or followed.following.offset != before:
                followed.note_lag(response.high_watermark)
        return None

    async def _take_rest(
        self,
        client: BrokerClient,
        followed: Followed,
        mismatch: Divergence | RecordsBelowLogEnd | ErrorCode,
    ) -> None:
        """Bring its log to where the next fetch can be appended."""
        following, tasks = followed.following, self._tasks
        try:
            match mismatch:
                case Divergence():
                    await following.truncate_to(mismatch, tasks)
                case RecordsBelowLogEnd():
                    await following.truncate_fully_and_append(mismatch, tasks)
                case _:  # the leader has nothing at this offset
                    begin, end = await following.leader_offsets(client)
                    if self._is_current(followed):
                        await following.handle_out_of_range(begin, end, tasks)
        except (ConnectionError, ApiError, StorageError, OSError) as failure:
            self._leave_out(followed, str(failure))

    def _leave_out_all(self, partitions: Iterable[Followed]) -> None:
        now_s, backoff_max_s = self._clock.monotonic_s(), self._settings.backoff_max_s
        for followed in partitions:
            self._partitions.changed(followed.replica.key)
            followed.retry_at_s = now_s + min(BACKOFF_S * 2**followed.failures, backoff_max_s)
            followed.failures = min(followed.failures + 1, DOUBLED_MAX)

    def _leave_out(self, followed: Followed, why: str) -> None:
        logger.info(
            "pausing the fetch of %s-%d from broker %d: %s",
            *followed.replica.key,
            self._leader,
            why,
        )
        self._leave_out_all((followed,))

    def _wait_ms(self) -> int:
        """How long the leader may wait with its response: at most until another partition is due.
        That may be one of a new topic, of which its leader had not heard at the last attempt."""
        wait_max_ms = self._settings.wait_max_ms
        if self._responds_soon:
            wait_max_ms = min(wait_max_ms, max(ADDED_WAIT_MS, len(self._partitions) // 20))
        left_s = self._next_due_s - self._clock.monotonic_s()
        return wait_max_ms if left_s * 1000 >= wait_max_ms else max(round(left_s * 1000), 1)

    def _request(
        self, session_request: SessionRequest, fetched: Mapping[TopicIdPartition, Followed]
    ) -> fetch.FetchRequest:
        settings = self._settings
        by_topic: dict[bytes, tuple[UUID, list[fetch.FetchedPartition]]] = {}
        for topic_id_partition, requested in session_request.partitions.items():
            topic = by_topic.get(topic_id_partition[0])
            if topic is None:
                topic = by_topic[topic_id_partition[0]] = (
                    fetched[topic_id_partition].replica.topic_id,
                    [],
                )
            topic[1].append(
                fetch.FetchedPartition(
                    topic_id_partition[1],
                    requested.leader_epoch,
                    requested.offset,
                    requested.last_epoch,
                    requested.log_start,
                    settings.partition_max_bytes,
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in session_request.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        return fetch.FetchRequest(
            fetch.ReplicaState(settings.broker_id, settings.broker_epoch()),
            self._wait_ms(),
            settings.min_bytes,
            settings.response_max_bytes,
            [fetch.FetchedTopic(*topic) for topic in by_topic.values()],
            session_request.epoch,
            session_request.session_id,
            forgotten_topics_data=[
                fetch.ForgottenTopic(UUID(bytes=topic_id), indexes)
                for topic_id, indexes in forgotten.items()
            ],
        )
