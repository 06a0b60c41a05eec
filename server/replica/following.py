"""A replica as follower: what it does with what it has fetched (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from kavka.client.broker_client import BrokerClient
from kavka.log.follower_append import UnexpectedOffsetError
from kavka.seams import Tasks
from kavka.server.replica.partition_state import NO_EPOCH
from kavka.server.replica.replica import Replica
from kavka.server.runtime.cooperative import run_rest
from kavka.wire.apis import list_offsets
from kavka.wire.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


class Divergence(NamedTuple):
    """The largest epoch up to the follower's that the leader has, and where that ends there."""

    epoch: int
    end_offset: int


class Fetched(NamedTuple):
    """A leader's answer for one partition. `records` are the follower's to keep."""

    records: memoryview | bytes
    high_watermark: int
    log_start_offset: int
    divergence: Divergence | None


class Following:
    """A replica that follows, in one leader epoch."""

    __slots__ = ("_replica", "is_prepared")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.is_prepared = False
        """Whether `prepare` has done its work."""

    @property
    def offset(self) -> int:
        """Where to fetch next."""
        return self._replica.log.end_offset

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 if there is none."""
        log = self._replica.log
        return log.epoch_of(log.end_offset - 1) if log.end_offset > log.start_offset else NO_EPOCH

    async def prepare(self, tasks: Tasks) -> None:
        """Before the first fetch. A log without epochs can't be compared with the leader's: what is
        above its high watermark goes, as that may never have been committed."""
        if self.is_prepared:
            return
        if self.last_epoch == NO_EPOCH:
            await self._truncate(self._replica.high_watermark, tasks)
        self.is_prepared = True

    async def take(self, fetched: Fetched, tasks: Tasks) -> None:
        """Append, or truncate to where the logs diverge. ApiError, StorageError, OSError."""
        if fetched.divergence is not None:
            await self._truncate(self._truncation_offset(fetched.divergence), tasks)
            return
        try:
            self._append(fetched)
        except UnexpectedOffsetError as failure:
            if not await self._begins_with(failure, tasks):
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failure)) from None
            self._append(fetched)

    def _append(self, fetched: Fetched) -> None:
        self._replica.append_fetched(
            memoryview(fetched.records), fetched.high_watermark, fetched.log_start_offset
        )

    async def _begins_with(self, batch: UnexpectedOffsetError, tasks: Tasks) -> bool:
        """Where the leader's log begins within a batch, as after DeleteRecords, an empty log begins
        with all of that batch, as in Apache Kafka: the leader has nothing below to be asked for.
        Whether it does so now."""
        replica, log = self._replica, self._replica.log
        is_empty = log.start_offset == log.end_offset
        if not is_empty or not batch.first_offset < log.end_offset <= batch.last_offset:
            return False
        partition, epoch = replica.partition, replica.partition.leader_epoch
        await run_rest(tasks, replica.start_over_at(batch.first_offset))
        follows = replica.is_served and not partition.is_leader
        return follows and partition.leader_epoch == epoch

    def _truncation_offset(self, leader: Divergence) -> int:
        """Where this log may still agree with the leader's: the end of the largest epoch that both
        have, in the log in which it ends first."""
        epoch, end = self._replica.log.end_offset_for_epoch(leader.epoch)
        if epoch == NO_EPOCH:
            return min(leader.end_offset, self._replica.log.end_offset)
        if epoch < leader.epoch:
            return end
        return min(end, leader.end_offset)

    async def leader_offsets(self, client: BrokerClient) -> tuple[int, int]:
        """Where the leader's log begins and ends. ApiError, ConnectionError."""
        found = []
        for timestamp in (list_offsets.EARLIEST, list_offsets.LATEST):
            topic, index = self._replica.key
            partition = self._replica.partition
            asked = list_offsets.AskedPartition(index, partition.leader_epoch, timestamp)
            request = list_offsets.ListOffsetsRequest(
                partition.broker_id, [list_offsets.AskedTopic(topic, [asked])]
            )
            answer: Any = await client.ask(list_offsets.API, request)
            (one,) = answer.topics[0].partitions
            if one.error_code:
                raise ApiError(ErrorCode(one.error_code))
            found.append(one.offset)
        begin, end = found
        return begin, end

    async def start_over(self, begin: int, end: int, tasks: Tasks) -> None:
        """The leader's log goes from `begin` to `end`, and this one ends outside of it."""
        log = self._replica.log
        if end < log.end_offset:
            await self._truncate(end, tasks)
        elif begin > log.end_offset:
            logger.warning("%s-%d starts over at %d", *self._replica.key, begin)
            await run_rest(tasks, self._replica.start_over_at(begin))

    async def _truncate(self, offset: int, tasks: Tasks) -> None:
        replica = self._replica
        if offset < replica.log.end_offset:
            logger.info("truncating %s-%d to %d", *replica.key, offset)
            await run_rest(tasks, replica.truncate(offset))
