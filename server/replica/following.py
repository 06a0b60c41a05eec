"""A replica as follower: where its log ends, and how it is brought to where the leader's can be
appended: truncated where the logs diverge (KIP-101, KIP-279, KIP-595), or fully."""

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
    """The largest leader epoch in the leader's log that is not above the epoch of the follower's
    last record, and where that epoch ends in the leader's log."""

    epoch: int
    end_offset: int


class RecordsBelowLogEnd(NamedTuple):
    """The leader's response for a partition, whose first batch begins below the end of the log."""

    failure: UnexpectedOffsetError
    records: bytes
    """They own their bytes."""
    high_watermark: int
    log_start_offset: int


class Following:
    """One replica as follower, in one leader epoch."""

    __slots__ = ("_replica", "is_prepared")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.is_prepared = False
        """Whether `prepare` is done."""

    @property
    def offset(self) -> int:
        """The offset to fetch from."""
        return self._replica.log.end_offset

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record; -1 if there is none."""
        log = self._replica.log
        return log.epoch_of(log.end_offset - 1) if log.end_offset > log.start_offset else NO_EPOCH

    async def prepare(self, tasks: Tasks) -> None:
        """Called before the first fetch. A log without leader epochs can't be compared with the
        leader's, so it is truncated to its high watermark: what is above may never have been
        committed."""
        if self.is_prepared:
            return
        if self.last_epoch == NO_EPOCH:
            await self._truncate(self._replica.high_watermark, tasks)
        self.is_prepared = True

    async def truncate_to(self, divergence: Divergence, tasks: Tasks) -> None:
        """Truncate to where the logs diverge. ApiError, StorageError, OSError."""
        await self._truncate(self._truncation_offset(divergence), tasks)

    async def truncate_fully_and_append(self, fetched: RecordsBelowLogEnd, tasks: Tasks) -> None:
        """Have an empty log start at the first offset of the first batch, as in Apache Kafka,
        if the leader's log starts within that batch (as after DeleteRecords): a fetch from the
        leader's start offset gets the whole batch, and none from before it is answered. Then append
        the records. ApiError if that is not so; StorageError, OSError."""
        replica, log = self._replica, self._replica.log
        batch, is_empty = fetched.failure, log.start_offset == log.end_offset
        if not is_empty or not batch.first_offset < log.end_offset <= batch.last_offset:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(batch))
        partition, epoch = replica.partition, replica.partition.leader_epoch
        await run_rest(tasks, replica.truncate_fully_and_start_at(batch.first_offset))
        if replica.is_served and not partition.is_leader and partition.leader_epoch == epoch:
            replica.append_fetched(
                memoryview(fetched.records), fetched.high_watermark, fetched.log_start_offset
            )

    def _truncation_offset(self, leader: Divergence) -> int:
        """The offset up to which this log may be the same as the leader's: the end of the largest
        epoch that both have, in the log in which it ends first."""
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
            requested = list_offsets.RequestedPartition(index, partition.leader_epoch, timestamp)
            request = list_offsets.ListOffsetsRequest(
                partition.broker_id, [list_offsets.RequestedTopic(topic, [requested])]
            )
            response: Any = await client.ask(list_offsets.API, request)
            (partition_response,) = response.topics[0].partitions
            if partition_response.error_code:
                raise ApiError(ErrorCode(partition_response.error_code))
            found.append(partition_response.offset)
        begin, end = found
        return begin, end

    async def handle_out_of_range(self, begin: int, end: int, tasks: Tasks) -> None:
        """The leader's log has the offsets from `begin` to `end`, and this log ends outside of
        them: truncate it to `end`, or fully, to start at `begin`."""
        log = self._replica.log
        if end < log.end_offset:
            await self._truncate(end, tasks)
        elif begin > log.end_offset:
            logger.warning(
                "truncating %s-%d fully, to start at %d: the leader has nothing before",
                *self._replica.key,
                begin,
            )
            await run_rest(tasks, self._replica.truncate_fully_and_start_at(begin))

    async def _truncate(self, offset: int, tasks: Tasks) -> None:
        replica = self._replica
        if offset < replica.log.end_offset:
            logger.info("truncating %s-%d to %d", *replica.key, offset)
            await run_rest(tasks, replica.truncate(offset))
