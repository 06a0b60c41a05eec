"""Fetch: records for consumers, up to the high watermark or the last stable offset.

Promises: sessions (KIP-227), topic ids (KIP-516), long poll by `min_bytes` and `max_wait_ms`, the
byte limits of request and partition with the first batch always complete (KIP-74), fencing by
leader epoch (KIP-320), divergence (KIP-595), current leader on errors (KIP-951). Before version 4
the records are converted to message sets (`down_conversion`).
Two differences from Apache Kafka, which returns nothing in these cases: in versions 0 to 2, too,
the first batch of each partition is complete, whatever its limit; and an old consumer at an offset
with batches that can't be in a message set (transaction markers) waits for the records after them.
Followers read up to the log end, and what they ask for says how far they have got. Since version 11
consumers may read from a follower, up to the high watermark that it knows; where
replica.selector.class is set, the leader names the replica in their rack (KIP-392).
"""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID
from weakref import ref

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.leader_endpoints import leader_endpoints
from kavka.server.replica.fetch_reading import (
    IDLE_PER_STEP,
    ISOLATION_LEVELS,
    READ_COMMITTED,
    PartitionRead,
    idle_for_follower,
    plan_part,
    read_cached,
    read_cold,
    redirected,
    split_idle,
)
from kavka.server.replica.fetch_sessions import Fetching, FetchPartition, TopicKey
from kavka.server.replica.replica import Replica
from kavka.server.request.context import RequestContext
from kavka.server.request.results import DelayedResponse
from kavka.server.runtime import cooperative
from kavka.wire.apis.fetch import (
    BATCHES_SINCE,
    RACKS_SINCE,
    REPLICA_STATES_SINCE,
    TOPIC_IDS_SINCE,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.frame import ARENA_BYTES
from kavka.wire.steps import Steps

_REQUEST_LIMIT_SINCE: Final = 3
_STORAGE_ERROR_SINCE: Final = 6
"""Lower versions have no storage error; they get NOT_LEADER_OR_FOLLOWER and refresh metadata."""

_CURRENT_LEADER_SINCE: Final = 16

_MISSING: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors found before anything is read."""

OF_FOLLOWERS: Final = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

PARTITIONS_PER_STEP: Final = 200
"""Partitions planned in one slice; planning takes 5 us and more."""

RESPONSES_PER_STEP: Final = 1000
"""Partitions put into the response in one slice, at 1 us."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    result = cooperative.run(broker.tasks, _begin(broker, context, request), context)
    at_once = isinstance(result, FetchResponse | DelayedResponse)
    return result if at_once else _await_response(result)


async def _await_response(result: Any) -> FetchResponse:
    while not isinstance(result, FetchResponse):
        result = await result
    return result


def _begin(broker: Broker, context: RequestContext, request: Any) -> Steps[Any]:
    """The response, or an awaitable of it."""
    follower = replica_id(context, request)
    is_privileged = follower >= 0 and broker.authorizer.allows(context, *OF_FOLLOWERS)
    try:
        fetching = yield from broker.sessions.begin_in_steps(
            request, context.version, is_privileged=is_privileged
        )
    except ApiError as error:
        return FetchResponse((), error.code)
    fetch = Fetch(broker, context, request, fetching, follower)
    # Partitions already planned may change while the others are being planned.
    noted = broker.purgatory.note_changes() if fetch.is_big else None
    try:
        if not (yield from fetch.plan()) and request.max_wait_ms > 0:
            return fetch.wait(request.max_wait_ms, noted)
    finally:
        if noted is not None:
            broker.purgatory.end_notes(noted)
    return (yield from fetch.respond_to_plan())


class Fetch:
    """One fetch in flight: planned once, and again whenever one of its partitions changes."""

    __slots__ = (
        "_broker",
        "_bytes_max",
        "_changes",
        "_context",
        "_enough_missing",
        "_fetching",
        "_files_left",
        "_idle",
        "_idle_requested",
        "_follower",
        "_from_any",
        "_is_noted",
        "_is_old_consumer",
        "_is_throttled",
        "_others",
        "_parts",
        "_rack",
        "_skipped",
        "_readable",
        "_request",
        "_tells_high_watermark",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: Any,
        fetching: Fetching,
        follower: int,
        *,
        is_noted: bool = False,
    ) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._fetching = fetching
        self._follower = follower  # negative: a consumer
        self._from_any = follower < 0 and context.version >= RACKS_SINCE
        selects = broker.selects_read_replica
        self._rack: str = request.rack_id if selects and self._from_any else ""
        self._tells_high_watermark = selects and follower >= 0
        self._is_noted = is_noted  # whether the leader knows how far the follower has got
        self._is_throttled = False  # whether records are held back for a quota
        self._is_old_consumer = context.version < BATCHES_SINCE
        self._parts: list[PartitionRead] = []
        self._idle: list[Replica] = []  # partitions without changes to report
        self._idle_requested: list[FetchPartition] = []  # the same, of a follower
        self._others: list[FetchPartition] = []
        self._changes: dict[Hashable, None] | None = None  # since a follower's fetch was planned
        self._readable: dict[str, bool] = {}  # authorization by topic, for one plan
        self._skipped: dict[tuple[str, int], int] = {}  # offset after unconvertible batches
        self._files_left = 0
        self._enough_missing = len(fetching.partitions)  # all; while waiting: one more than before

    # -- planning -------------------------------------------------------------------------

    @property
    def is_big(self) -> bool:
        """Whether `plan` may pause."""
        return len(self._fetching.partitions) >= PARTITIONS_PER_STEP

    def plan(self) -> Steps[bool]:
        """Plan the fetch. True if it can be answered at once: with enough bytes, an error, or a
        slice that ends with its segment and so would not grow, as in Apache Kafka.

        Missing topics do not end the wait while other partitions are read: the client would send
        fetches in a loop until it refreshes its metadata. For a follower they end the wait: it
        leaves such a partition (its leader awaits LeaderAndIsr) out for a while, from then on.
        """
        self._parts = parts = yield from self._plan()
        size = missing = 0
        for part in parts:
            if part.file_range is not None:
                if part.file_range.more_follows:
                    return True
                size += part.available_bytes
            elif part.response.error_code in _MISSING and self._follower < 0:
                missing += 1
            elif (
                part.response.error_code
                or part.response.diverging_epoch is not None
                or part.response.preferred_read_replica >= 0
            ):
                return True
            if self._follower >= 0 and self._has_news(part):
                return True
        enough = min(self._request.min_bytes, self._bytes_max)  # never more than the limit
        return size >= enough or missing >= self._enough_missing or not self._files_left

    def _has_news(self, part: PartitionRead) -> bool:
        """Whether a follower is answered at once, because records were deleted; or because the high
        watermark has moved, if consumers may read from the follower."""
        if 0 <= part.requested.follower_start < part.response.log_start_offset:
            return True
        if not self._tells_high_watermark or part.replica is None:
            return False
        follower = part.replica.partition.followers.get(self._follower)
        return follower is not None and follower.sent_high_watermark < part.response.high_watermark

    def is_complete(self) -> Steps[bool]:
        """`plan` for a waiting fetch, which holds no files in between."""
        is_ready = yield from self.plan()
        if not is_ready:
            self._release_files()
        return is_ready

    def _release_files(self) -> None:
        for part in self._parts:
            part.file_range = None

    def _plan(self) -> Steps[list[PartitionRead]]:
        """Plan all partitions; missing ones come last, as in Apache Kafka."""
        broker, request = self._broker, self._request
        committed_only = request.isolation_level == READ_COMMITTED
        bytes_left = min(request.max_bytes, broker.settings.fetch_max_bytes)
        if bytes_left > ARENA_BYTES:
            bytes_left = min(bytes_left, broker.arenas.response_bytes_max())
        self._bytes_max = bytes_left
        files_left = broker.replicas.logs.files_at_once
        at_least_one = True
        of_each = self._context.version < _REQUEST_LIMIT_SINCE
        parts: list[PartitionRead] = []
        missing: list[PartitionRead] = []
        self._readable = {}
        self._is_throttled = False
        done = 0
        for requested in (yield from self._without_idle()):
            done += 1
            if done % PARTITIONS_PER_STEP == 0:
                yield None
            try:
                replica = self._replica(requested)
                if self._rack:
                    preferred = self._preferred_read_replica(replica, requested.offset)
                    if preferred is not None:
                        parts.append(redirected(replica, requested, preferred))
                        continue
                if self._skipped:
                    requested = self._after_skipped(requested)
                part = plan_part(
                    replica,
                    requested,
                    committed_only=committed_only,
                    bytes_max=bytes_left,
                    at_least_one=at_least_one,
                    to_end=self._follower >= 0,
                )
                if self._follower >= 0:
                    self._serve_follower(part, replica)
            except ApiError as error:
                part = PartitionRead(requested, self._refused(requested, error))
                if error.code in _MISSING:
                    missing.append(part)
                    continue
            if part.file_range is not None:
                bytes_left = max(bytes_left - part.file_range.length, 0)
                at_least_one = of_each and bytes_left > 0
                files_left -= 1
                if not files_left:
                    bytes_left, at_least_one = 0, False
            elif bytes_left < 0:  # refused by the first partition that is read; the others go on
                bytes_left = 0
            parts.append(part)
        self._files_left = files_left
        self._is_noted = True
        if parts and request.isolation_level not in ISOLATION_LEVELS:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown isolation level")
        return parts + missing if missing else parts

    def _without_idle(self) -> Steps[Iterable[FetchPartition]]:
        """The partitions except idle ones, which have nothing to report in an incremental fetch."""
        if self._changes is not None:
            self._end_idleness(self._changes)
            return self._others
        self._idle = []
        self._idle_requested = []
        partitions = self._fetching.partitions
        if not self._fetching.incremental or self._request.isolation_level not in ISOLATION_LEVELS:
            return partitions
        if self._follower >= 0:
            yield from self._split_for_follower(partitions)
        else:
            self._idle, self._others = yield from split_idle(
                partitions, self._may_read, from_leader=not self._rack, from_any=self._from_any
            )
        return self._others

    def _split_for_follower(self, partitions: list[FetchPartition]) -> Steps[None]:
        self._others = others = []
        follower, now_ms = self._follower, int(self._broker.clock.monotonic_s() * 1000)
        for done, requested in enumerate(partitions, 1):
            if done % IDLE_PER_STEP == 0:
                yield None
            replica = idle_for_follower(requested, follower)
            if replica is None or not self._may_read(replica.log.topic):
                others.append(requested)
                continue
            self._idle.append(replica)
            self._idle_requested.append(requested)
            if not self._is_noted:
                end = replica.log.end_offset
                replica.partition.followers[follower].fetched(end, end, now_ms)

    def _end_idleness(self, changes: dict[Hashable, None]) -> None:
        """Of a follower's partitions, which mostly are idle, only those that have changed are
        planned again."""
        changed = {key[:2] for key in changes if isinstance(key, tuple)}
        changes.clear()
        idle, idle_requested = self._idle, self._idle_requested
        self._idle, self._idle_requested = [], []
        for replica, requested in zip(idle, idle_requested, strict=True):
            if replica.key in changed:
                self._others.append(requested)
            else:
                self._idle.append(replica)
                self._idle_requested.append(requested)

    def _may_read(self, topic: str) -> bool:
        may = self._readable.get(topic)
        if may is None:
            permission = (Operation.READ, ResourceType.TOPIC, topic)
            if self._follower >= 0:
                permission = OF_FOLLOWERS
            may = self._broker.authorizer.allows(self._context, *permission)
            self._readable[topic] = may
        return may

    def _replica(self, requested: FetchPartition) -> Replica:
        broker = self._broker
        name = self._name(requested.topic)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not self._may_read(name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        find = broker.replicas.served if self._from_any else broker.replicas.leader
        replica = find(name, requested.partition)
        if self._is_old_consumer:
            from kavka.server.handlers.common import down_conversion

            down_conversion.check_readable(replica.log.settings)
        if self._follower >= 0:
            self._check_follower(replica, requested)
        return replica

    def _check_follower(self, replica: Replica, requested: FetchPartition) -> None:
        if isinstance(requested.topic, UUID) and replica.topic_id != requested.topic:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)  # its topic was created again
        if self._follower not in replica.partition.followers:
            if requested.current_leader_epoch < 0:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            replica.check_epoch(requested.current_leader_epoch)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def _preferred_read_replica(self, replica: Replica, offset: int) -> int | None:
        """The replica that a consumer should rather read from."""
        from kavka.server.replica.preferred_read_replica import find_preferred_read_replica

        return find_preferred_read_replica(replica.partition, offset, self._rack, self._rack_of)

    def _rack_of(self, broker_id: int) -> str | None:
        """The rack of a broker that the consumer can reach."""
        known = self._broker.metadata.image.brokers.get(broker_id)
        if known is None or self._broker.address_of(known, self._context.peer) is None:
            return None
        return known.rack

    def _serve_follower(self, part: PartitionRead, replica: Replica) -> None:
        """Note how far a follower has got. If it is not in sync and has to wait for the quota of
        throttled partitions (KIP-73), it gets no records."""
        if not self._is_noted:
            self._note_follower(part)
        if replica.throttled_as_leader and self._follower not in replica.partition.isr:
            quotas = self._broker.replication_quotas
            if quotas is not None and part.file_range is not None and quotas.leader.is_exceeded:
                part.file_range = None
                self._is_throttled = True

    def _note_follower(self, part: PartitionRead) -> None:
        """Report to the leader how far the follower has got: once per request, as it does not
        change while the request waits."""
        replica, response = part.replica, part.response
        if replica is None or response.error_code or response.diverging_epoch is not None:
            return
        replica.fetched_by(self._follower, part.requested.offset, part.requested.follower_start)
        response.high_watermark = replica.high_watermark

    def _after_skipped(self, requested: FetchPartition) -> FetchPartition:
        offset = self._skipped.get((str(requested.topic), requested.partition), requested.offset)
        return replace(requested, offset=max(offset, requested.offset))

    def _name(self, topic: TopicKey) -> str | None:
        if isinstance(topic, str):
            return topic if self._context.version < TOPIC_IDS_SINCE else None
        return self._broker.metadata.image.names_by_id.get(topic)

    def _refused(self, requested: FetchPartition, error: ApiError) -> PartitionResponse:
        response = PartitionResponse(requested.partition, error.code)
        if error.code not in _MISSING:
            response.aborted_transactions = None
        if (
            error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
            and self._context.version >= _CURRENT_LEADER_SINCE
        ):
            known = self._broker.metadata.image.topics.get(self._name(requested.topic) or "")
            leads = None if known is None else known.partition(requested.partition)
            if leads is not None:
                response.current_leader = LeaderIdAndEpoch(leads.leader, leads.leader_epoch)
        return response

    # -- responding -----------------------------------------------------------------------

    def wait(self, max_wait_ms: int, noted: dict[Hashable, None] | None) -> DelayedResponse:
        """Long poll: wait until there is enough, or for `max_wait_ms`. Changes are seen from this
        call on, and those `noted` before."""
        self._release_files()
        planned = [part.replica for part in self._parts if part.replica is not None]
        self._enough_missing = len(self._parts) - len(planned) + 1
        planned += self._idle
        keys: list[Hashable] = [
            replica.key if self._follower < 0 else replica.end_key for replica in planned
        ]
        if self._tells_high_watermark:
            keys += [replica.key for replica in planned]
        wait_s = max_wait_ms / 1000
        if self._is_throttled:
            wait_s = min(wait_s, self._throttled_s())
        purgatory = self._broker.purgatory
        wait = purgatory.begin(keys, self.is_complete, wait_s, "Fetch", noted=noted)
        if self._fetching.begins_session:
            wait.add_callback(self._end_without_response)
        if self._follower >= 0 and self._idle:
            changes = self._changes = purgatory.note_changes()
            changes |= noted or {}
            wait.add_callback(lambda _: purgatory.end_notes(changes))
        self._context.wait(wait)
        return DelayedResponse(wait, lambda is_ready: self.respond(is_planned=is_ready))

    def _end_without_response(self, is_complete: bool | None) -> None:
        """If the connection has closed, nobody will know the session's id. Followers close it
        whenever they get more partitions to fetch."""
        if is_complete is None:
            self._broker.sessions.end_without_response(self._fetching)

    def _throttled_s(self) -> float:
        """Time until the quota allows records to be sent again. Then the fetch is answered, and not
        only at the end of its wait, as in Apache Kafka."""
        quotas = self._broker.replication_quotas
        assert quotas is not None
        return quotas.leader.free_at_s() - self._broker.clock.monotonic_s()

    def respond(self, *, is_planned: bool) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
        """The response when a wait has ended. Unless `is_planned`, plan again first."""
        result = cooperative.run(self._broker.tasks, self._respond(is_planned=is_planned))
        return result if isinstance(result, FetchResponse) else _await_response(result)

    def _respond(self, *, is_planned: bool) -> Steps[Any]:
        if not is_planned:
            yield from self.plan()
        return (yield from self.respond_to_plan())

    async def _is_ready(self) -> bool:
        found = cooperative.run(self._broker.tasks, self.plan())
        return found if isinstance(found, bool) else await found

    def respond_to_plan(self) -> Steps[Any]:
        """The response to the last plan; an awaitable if the disk must be read."""
        if self._is_old_consumer:
            return self._respond_converted()
        cold = yield from read_cached(self._parts, self._broker.arenas, self._context)
        if cold:
            return self._respond_cold(cold)
        return (yield from self._response())

    async def _respond_cold(self, cold: list[Any]) -> FetchResponse:
        await read_cold(cold, self._broker.jobs)
        return await self._responded()

    async def _responded(self) -> FetchResponse:
        return await _await_response(cooperative.run(self._broker.tasks, self._response()))

    async def _respond_converted(self) -> FetchResponse:
        """The response for a consumer of message sets. If no batch could be converted, wait again,
        for records after them."""
        from kavka.server.handlers.common import down_conversion

        broker, context, request = self._broker, self._context, self._request
        ends_s = broker.clock.monotonic_s() + request.max_wait_ms / 1000
        while True:
            self._release_files()
            async with broker.replicas.opener.slots:
                # plan again: less memory may be free now, or a topic deleted
                await self._is_ready()
                skipped = await down_conversion.read_converted(broker, context, self._parts)
            if not skipped or any(part.response.records for part in self._parts):
                return await self._responded()
            self._skipped |= skipped
            left_s = ends_s - broker.clock.monotonic_s()
            await self._wait_again(left_s)

    async def _wait_again(self, left_s: float) -> None:
        purgatory = self._broker.purgatory
        noted = purgatory.note_changes()
        try:
            if await self._is_ready() or left_s <= 0:
                return
            keys = [part.replica.key for part in self._parts if part.replica is not None]
            self._release_files()
            woken = purgatory.wait(keys, self.is_complete, left_s, "Fetch", noted=noted)
        finally:
            purgatory.end_notes(noted)
        await self._context.wait(woken)

    def _response(self) -> Steps[FetchResponse]:
        fetching = self._fetching
        try:
            fetching.check_current()
        except ApiError as error:
            return FetchResponse((), error.code)
        if self._context.version < _STORAGE_ERROR_SINCE:
            for part in self._parts:
                if part.response.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    part.response.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topics: list[TopicResponse] = []
        leaders: dict[int, None] = {}
        last: TopicKey | None = None
        partitions: list[PartitionResponse] = []
        for replica in self._idle:
            replica.traffic.fetches += 1
        for done, part in enumerate(self._parts, 1):
            if done % RESPONSES_PER_STEP == 0:
                yield None
            if part.replica is not None:
                part.replica.traffic.fetches += 1
                part.requested.replica = ref(part.replica)
                part.requested.is_prefix = part.is_prefix
                if self._tells_high_watermark:
                    self._note_sent(part.replica, part.response.high_watermark)
            if not fetching.keep(part.requested, part.response):
                continue
            topic = part.requested.topic
            if topic != last or not topics:
                last = topic
                partitions = []
                if isinstance(topic, str):
                    topics.append(TopicResponse(topic, None, partitions))
                else:
                    topics.append(TopicResponse("", topic, partitions))
            partitions.append(part.response)
            if part.replica is not None and part.response.records:
                self._count(part.replica, len(part.response.records))
            if part.response.current_leader is not None and self._follower < 0:
                leaders[part.response.current_leader.leader_id] = None
        endpoints = leader_endpoints(self._broker, self._context, leaders) if leaders else ()
        return FetchResponse(topics, 0, fetching.session_id, 0, endpoints)

    def _note_sent(self, replica: Replica, high_watermark: int) -> None:
        follower = replica.partition.followers.get(self._follower)
        if follower is not None:
            follower.sent_high_watermark = high_watermark

    def _count(self, replica: Replica, size_bytes: int) -> None:
        """Count the bytes sent. For the quota of throttled partitions, those to followers in sync
        count too."""
        quotas = self._broker.replication_quotas
        if self._follower < 0:
            replica.traffic.bytes_out += size_bytes
        elif replica.throttled_as_leader and quotas is not None:
            quotas.leader.record(size_bytes)


def replica_id(context: RequestContext, request: Any) -> int:
    """The fetching follower's id; negative for a consumer. Since version 15 in a tagged field."""
    if context.version < REPLICA_STATES_SINCE:
        return int(request.replica_id)
    state = request.replica_state
    return -1 if state is None else int(state.replica_id)
