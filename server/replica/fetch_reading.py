"""Reading for Fetch: first a plan of what there is, then its bytes.

A plan reads batch headers at most, to find a position, and is made again whenever a partition has
changed: it also decides whether a waiting fetch is ready. Bytes come from the page cache into
pooled arenas; what is not cached is read by a thread (`Jobs`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from kavka.log.errors import StorageError
from kavka.log.partition_log import PartitionLog
from kavka.log.reader import FileRange
from kavka.seams import Jobs, Pool
from kavka.server.replica.fetch_sessions import FetchPartition
from kavka.server.replica.replica import Replica
from kavka.server.request.context import RequestContext
from kavka.wire.apis.fetch import AbortedTransaction, EpochEndOffset, PartitionResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.frame import ARENA_BYTES, Arena, ArenaPool
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
"""For any other level Apache Kafka fails with an exception: UNKNOWN_SERVER_ERROR."""


COPIED_BYTES_MAX: Final = 16 * 1024
"""Responses with up to so many bytes of records get a buffer of their own size: it costs less than
one from the pool, and a client that does not read its response holds no arena."""


IDLE_PER_STEP: Final = 2000
"""Partitions checked for changes in one slice, at half a microsecond."""

READS_PER_STEP: Final = 100
"""Partitions whose records are read between two pauses, at 10 us and more each."""


class PartitionRead:
    """One partition of a fetch: its response so far, and the position of its records."""

    __slots__ = ("bytes_max", "file_range", "is_prefix", "replica", "requested", "response")

    def __init__(self, requested: FetchPartition, response: PartitionResponse) -> None:
        self.requested = requested
        self.response = response
        self.replica: Replica | None = None
        self.file_range: FileRange | None = None
        self.bytes_max = 0
        """How many bytes of records the reader wants here, within the limit of its request."""
        self.is_prefix = False
        """Whether the reader's log is a prefix of this one, as far as it has been compared."""

    @property
    def available_bytes(self) -> int:
        """How much there is of what the reader wants here. The plan may be for less: see
        `FileRange.is_cut`."""
        found = self.file_range
        if found is None:
            return 0
        return max(found.length, self.bytes_max) if found.is_cut else found.length


def split_idle(
    partitions: Iterable[FetchPartition],
    may_read: Callable[[str], bool],
    *,
    from_leader: bool,
    from_any: bool,
) -> Steps[tuple[list[Replica], list[FetchPartition]]]:
    """The replicas of idle partitions, and the other partitions.

    Idle: `plan_part` would find no records for a consumer, nor anything else that has changed since
    the last response of its session. Of a thousand partitions that a consumer reads, most are idle
    at any time, and all are checked twice for each record: so this is one loop. With `from_any` the
    consumer may read from a follower; without `from_leader` another replica may be nearer than the
    leader.
    """
    idle: list[Replica] = []
    others: list[FetchPartition] = []
    topic, may = "", False
    for done, requested in enumerate(partitions, 1):
        if done % IDLE_PER_STEP == 0:
            yield None
        replica: Replica | None = None if requested.replica is None else requested.replica()
        if replica is None or not replica.hosted or replica.offline:
            others.append(requested)
            continue
        partition, log = replica.partition, replica.log
        if log.topic != topic:
            topic = log.topic
            may = may_read(topic)
        if (
            may
            and requested.offset == requested.high_watermark == partition.high_watermark
            and requested.log_start_offset == log.start_offset
            and requested.last_fetched_epoch < 0
            and (
                requested.current_leader_epoch < 0
                or requested.current_leader_epoch == partition.leader_epoch
            )
            and (from_leader if partition.is_leader else from_any)
        ):
            idle.append(replica)
        else:
            others.append(requested)
    return idle, others


def idle_for_follower(requested: FetchPartition, follower: int) -> Replica | None:
    """An idle partition's replica, as in `split_idle`, for a follower that is in the ISR and has
    all records. (It may be about to leave the ISR, because its last fetch was too long ago: see
    `FollowerProgress.fetched`.)"""
    replica: Replica | None = None if requested.replica is None else requested.replica()
    if replica is None or replica.offline:
        return None
    partition, log = replica.partition, replica.log
    offset = requested.offset
    if (
        not requested.is_prefix
        or offset != log.end_offset
        or requested.high_watermark != partition.high_watermark
        or not 0 <= requested.log_start_offset == log.start_offset <= requested.follower_start
        or requested.current_leader_epoch != partition.leader_epoch
        or follower not in partition.isr
    ):
        return None
    known = partition.followers.get(follower)
    is_known = known is not None and (known.log_end, known.log_start) == (
        offset,
        requested.follower_start,
    )
    return replica if is_known else None


def plan_part(
    replica: Replica,
    requested: FetchPartition,
    *,
    committed_only: bool,
    bytes_max: int,
    at_least_one: bool,
    to_end: bool = False,
) -> PartitionRead:
    """The plan for what a consumer, or a follower (`to_end`), may read of one partition. ApiError
    when it may not read.

    `bytes_max` is what is left of the request's limit, and may be negative; with `at_least_one`
    the first batch is returned whole whatever its size (KIP-74).
    """
    if requested.current_leader_epoch >= 0:  # -1: the reader knows no epoch
        replica.check_epoch(requested.current_leader_epoch)
    log = replica.log
    high_watermark, last_stable = replica.partition.high_watermark, replica.last_stable_offset
    response = PartitionResponse(
        requested.partition,
        0,
        high_watermark,
        last_stable,
        log.start_offset,
        b"",
        () if committed_only else None,
    )
    part = PartitionRead(requested, response)
    part.replica = replica
    if requested.last_fetched_epoch >= 0:
        response.diverging_epoch = _divergence(replica, requested)
        if response.diverging_epoch is not None:
            return part
    part.is_prefix = True
    upto = last_stable if committed_only else high_watermark
    if to_end:
        upto = log.end_offset
    part.bytes_max = allowed = min(requested.max_bytes, bytes_max)
    try:
        at_least_one = at_least_one or allowed < 0
        part.file_range = log.read(
            requested.offset,
            max(allowed, 0),
            upto=upto,
            at_least_one=at_least_one,
            skip_empty=not to_end,
        )
        if committed_only and part.file_range is not None:
            _add_aborted(part, part.file_range, log, upto, at_least_one)
    except (OSError, StorageError) as failure:
        fail(part, failure)
    if allowed < 0 and part.file_range is not None:  # as in Apache Kafka, which checks it only then
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"room for {allowed} bytes")
    return part


def redirected(replica: Replica, requested: FetchPartition, preferred: int) -> PartitionRead:
    """The response for a consumer that should read from another replica. ApiError when its leader
    epoch is not this broker's."""
    replica.check_epoch(requested.current_leader_epoch)
    response = PartitionResponse(
        requested.partition,
        0,
        replica.high_watermark,
        replica.last_stable_offset,
        replica.log.start_offset,
        b"",
        None,
        preferred,
    )
    part = PartitionRead(requested, response)
    part.replica = replica
    return part


def _add_aborted(
    part: PartitionRead, found: FileRange, log: PartitionLog, last_stable: int, at_least_one: bool
) -> None:
    """Add the aborted transactions whose records a reader of committed ones has to skip; where
    there are very many, plan fewer bytes."""
    offset = part.requested.offset
    aborted, upto = log.aborted_transactions(offset, found)
    if upto is not None and upto < last_stable:
        bytes_max = max(part.bytes_max, 0)
        part.file_range = log.read(offset, bytes_max, upto=upto, at_least_one=at_least_one)
    if aborted:
        part.response.aborted_transactions = [
            AbortedTransaction(txn.producer_id, txn.first_offset) for txn in aborted
        ]


def fail(part: PartitionRead, failure: Exception) -> None:
    """Answer KAFKA_STORAGE_ERROR for a partition whose log can't be read; others fail too only if
    the log directory goes offline for it."""
    response = part.response
    assert part.replica is not None, "only hosted partitions are read"
    logger.error("can't read %s-%d: %s", *part.replica.key, failure)
    part.replica.read_failed(failure)
    part.file_range = None
    response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    response.high_watermark = response.last_stable_offset = response.log_start_offset = -1


def _divergence(replica: Replica, requested: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's log diverges from this one (KIP-595); None if it is a prefix of it."""
    epoch, end_offset = replica.log.end_offset_for_epoch(requested.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < requested.last_fetched_epoch or end_offset < requested.offset:
        return EpochEndOffset(epoch, end_offset)
    return None


class _Packer:
    """Room for the parts of one response, packed into as few arenas as they fit in."""

    __slots__ = ("_arena", "_arenas", "_context", "_used")

    def __init__(self, arenas: ArenaPool, context: RequestContext) -> None:
        self._arenas = arenas
        self._context = context
        self._arena: Arena | None = None
        self._used = 0

    def take(self, size: int) -> memoryview:
        arena = self._arena
        if arena is None or arena.size - self._used < size:
            arena = self._arena = self._arenas.acquire(max(size, ARENA_BYTES))
            self._context.lend(arena)
            self._used = 0
        start = self._used
        self._used = start + size
        return arena.view[start : start + size]


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))


class Cold:
    """A part whose bytes are not all in the page cache."""

    __slots__ = ("file_range", "part", "view")

    def __init__(self, part: PartitionRead, found: FileRange, view: memoryview) -> None:
        self.part = part
        self.file_range = found
        self.view = view


def room_for(size: int, arenas: ArenaPool, context: RequestContext) -> Callable[[int], memoryview]:
    """What allocates buffers for a response with so many bytes of records."""
    return _Packer(arenas, context).take if size > COPIED_BYTES_MAX else _fresh


def read_cached(
    parts: list[PartitionRead], arenas: ArenaPool, context: RequestContext
) -> Steps[list[Cold]]:
    """Read, in steps, what the page cache holds; the parts that it does not hold are returned, for
    `read_cold`."""
    size = sum([part.file_range.length for part in parts if part.file_range is not None])
    take = room_for(size, arenas, context)
    cold: list[Cold] = []
    done = 0
    for part in parts:
        found = part.file_range
        if found is None:
            continue
        done += 1
        if done % READS_PER_STEP == 0:
            yield None
        view = take(found.length)
        try:
            is_whole = found.file.read_cached(view, found.position) == found.length
        except OSError as failure:
            fail(part, failure)
            continue
        if is_whole:
            part.response.records = view
        else:
            cold.append(Cold(part, found, view))
    return cold


async def read_cold(cold: list[Cold], jobs: Jobs) -> None:
    """Read from the disk, in a thread."""
    for miss in cold:
        try:
            size = await jobs.run(
                Pool.READ, miss.file_range.file.read_into, miss.view, miss.file_range.position
            )
        except OSError as failure:
            fail(miss.part, failure)
        else:
            miss.part.response.records = miss.view[:size]
