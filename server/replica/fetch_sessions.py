"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that a request names
only what changed and a response only what has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID
from weakref import ref

from kavka.seams import Clock, Random
from kavka.wire.apis.fetch import (
    FETCHED_EPOCHS_SINCE,
    LEADER_EPOCHS_SINCE,
    LOG_STARTS_SINCE,
    TOPIC_IDS_SINCE,
    PartitionResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

EVICTION_MS_MIN: Final = 120_000
"""A session used within this time is not evicted."""

PARTITIONS_MAX: Final = 100_000
"""Partitions in all sessions together, about 400 bytes each. A client that would exceed it fetches
without a session, as when there is no slot; Apache Kafka limits the number of sessions only.
Sessions of followers count too, but take the place of consumers' ones."""

PARTITIONS_PER_STEP: Final = 500
"""Partitions of a request that are put into the session between two pauses, at 2 us each."""

_ID_MAX: Final = 2**31 - 1

TopicKey: TypeAlias = str | UUID
PartitionKey: TypeAlias = tuple[TopicKey, int]


@dataclass(slots=True)
class FetchPartition:
    """One partition that a client fetches, and what its session's last response said of it."""

    topic: TopicKey
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    follower_start: int = -1
    """Where a follower's own log starts."""
    high_watermark: int = -1
    log_start_offset: int = -1
    replica: ref[Any] | None = None
    """What its last response was read from; a weak reference, so that a session keeps no deleted
    replica."""
    is_prefix: bool = False
    """Whether that found the reader's log, as the reader has described it since, to be a prefix of
    the leader's."""

    def update(self, partition: Any, version: int) -> None:
        """Apply a later request."""
        leader_epoch, last_epoch = _epochs(partition, version)
        self.read_up_to(
            leader_epoch, partition.fetch_offset, last_epoch, _follower_start(partition, version)
        )
        self.max_bytes = partition.partition_max_bytes

    def read_up_to(
        self, leader_epoch: int, offset: int, last_epoch: int, follower_start: int
    ) -> None:
        """Apply a later request that changes no more than this."""
        if offset == self.offset and follower_start >= 0:
            # A follower begins anew to follow it, perhaps in a later leader epoch. It has not taken
            # what the response to its last request said.
            self.high_watermark = -1
        self.current_leader_epoch = leader_epoch
        self.offset = offset
        self.last_fetched_epoch = last_epoch
        self.follower_start = follower_start
        self.is_prefix = False

    def responded(self, replica: Any, high_watermark: int, log_start_offset: int) -> None:
        """Remember a response with records, for a reader whose log is a prefix of the leader's."""
        self.replica = ref(replica)
        self.is_prefix = True
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset

    def has_changed(self, response: PartitionResponse) -> bool:
        """Whether an incremental response must include this partition's; remembers what it says."""
        changed = bool(response.records) or response.preferred_read_replica >= 0
        if response.high_watermark != self.high_watermark:
            self.high_watermark = response.high_watermark
            changed = True
        if response.log_start_offset != self.log_start_offset:
            self.log_start_offset = response.log_start_offset
            changed = True
        if response.error_code or response.diverging_epoch is not None:
            # Forget the last response, so that the next one without an error is included. A
            # follower that is to truncate its log doesn't take the high watermark yet.
            self.high_watermark = -1
            changed = True
        return changed


def _epochs(partition: Any, version: int) -> tuple[int, int]:
    """The leader epoch that a reader knows, and that of its last record; -1: none.

    Fields that a version lacks are not read: the codec takes long to find their defaults.
    """
    if version >= FETCHED_EPOCHS_SINCE:
        return partition.current_leader_epoch, partition.last_fetched_epoch
    return partition.current_leader_epoch if version >= LEADER_EPOCHS_SINCE else -1, -1


def _follower_start(partition: Any, version: int) -> int:
    start: int = partition.log_start_offset if version >= LOG_STARTS_SINCE else -1
    return start


def _fetch_partition(topic: TopicKey, partition: Any, version: int) -> FetchPartition:
    return FetchPartition(
        topic,
        partition.partition,
        partition.fetch_offset,
        partition.partition_max_bytes,
        *_epochs(partition, version),
        _follower_start(partition, version),
    )


def requested_partition(topic: Any, partition: Any, version: int) -> FetchPartition:
    """What a request wants of a partition that it asks for."""
    return _fetch_partition(_topic_key(topic, version), partition, version)


def _topic_key(topic: Any, version: int) -> TopicKey:
    """A topic in a request or in its forgotten list: by id from version 13 on, else by name."""
    by_name = version < TOPIC_IDS_SINCE or topic.topic_id is None
    key: TopicKey = topic.topic if by_name else topic.topic_id
    return key


class Session:
    """What one client fetches, kept between its requests."""

    __slots__ = ("by_id", "epoch", "id", "is_privileged", "partitions", "used_ms")

    def __init__(
        self, session_id: int, by_id: bool, now_ms: float, *, is_privileged: bool = False
    ) -> None:
        self.id = session_id
        self.by_id = by_id
        self.is_privileged = is_privileged
        """Whether it is a follower's."""
        self.epoch = 1
        self.partitions: dict[PartitionKey, FetchPartition] = {}
        self.used_ms = now_ms

    def update(self, request: Any, version: int) -> Steps[None]:
        """Add, change and forget partitions as the request says; one that it both fetches and
        forgets is removed."""
        done = 0
        for topic in request.topics:
            key = _topic_key(topic, version)
            for partition in topic.partitions:
                known = self.partitions.get((key, partition.partition))
                if known is None:
                    self.partitions[key, partition.partition] = _fetch_partition(
                        key, partition, version
                    )
                else:
                    known.update(partition, version)
                done += 1
                if done % PARTITIONS_PER_STEP == 0:
                    yield None
        for topic in request.forgotten_topics_data:
            key = _topic_key(topic, version)
            for index in topic.partitions:
                self.partitions.pop((key, index), None)
                done += 1
                if done % PARTITIONS_PER_STEP == 0:
                    yield None


@dataclass(slots=True)
class Fetching:
    """What one request fetches: its partitions in order, and which of them are in the response."""

    partitions: list[FetchPartition]
    session: Session | None = None
    incremental: bool = False
    epoch: int = 0

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id

    @property
    def begins_session(self) -> bool:
        """Whether the response begins a session: the reader does not know its id yet."""
        return self.session is not None and not self.incremental

    @property
    def is_outdated(self) -> bool:
        """Whether another request has used the session while this one waited."""
        return self.session is not None and self.session.epoch != self.epoch

    def check_current(self) -> None:
        """ApiError if it `is_outdated`."""
        if self.is_outdated:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def keep(self, requested: FetchPartition, response: PartitionResponse) -> bool:
        """Whether the whole response includes this partition's."""
        if self.session is None:
            return True
        changed = requested.has_changed(response)
        if response.records:
            # Moved to the end, so that every partition gets its turn (KIP-227).
            key = (requested.topic, requested.partition)
            if self.session.partitions.pop(key, None) is not None:
                self.session.partitions[key] = requested
        return changed or not self.incremental


class FetchSessions:
    """All sessions of a broker, at most `slots` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, clock: Clock, random: Random, *, slots: int) -> None:
        self._clock = clock
        self._random = random
        self._slots = slots
        self._sessions: dict[int, Session] = {}
        self._held = 0  # partitions in all of them
        self.evictions = 0
        """Sessions evicted so far."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def begin_in_steps(
        self, request: Any, version: int, *, is_privileged: bool = False
    ) -> Steps[Fetching]:
        """What `request` fetches, in steps if it names many partitions. ApiError if its session id
        or epoch is wrong. `is_privileged`: it is a follower's request, for whose session those of
        consumers may be evicted."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return (yield from self._full(request, version, is_privileged))
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != (version >= TOPIC_IDS_SINCE):
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        epoch = self.renew(session)
        before = len(session.partitions)
        yield from self._update(session, request, version)
        if not session.partitions:
            self._end(session)
            return Fetching([])
        if len(session.partitions) > before and self._held > PARTITIONS_MAX:
            if session.is_privileged and self._evict_consumers(0, slots=0):
                return Fetching(list(session.partitions.values()), session, True, epoch)
            self._end(session)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return Fetching(list(session.partitions.values()), session, True, epoch)

    def find(self, session_id: int) -> Session | None:
        """The session with this id."""
        return self._sessions.get(session_id)

    def has_only(self, session: Session, requested: FetchPartition) -> bool:
        """Whether a session still exists, with this partition and no other."""
        if self._sessions.get(session.id) is not session or len(session.partitions) != 1:
            return False
        return next(iter(session.partitions.values())) is requested

    def renew(self, session: Session) -> int:
        """Begin the next request of a session, and return the session's new epoch."""
        self._touch(session)
        session.epoch = epoch = 1 if session.epoch == _ID_MAX else session.epoch + 1
        return epoch

    def _update(self, session: Session, request: Any, version: int) -> Steps[None]:
        """Update a session in steps. ApiError if another request has used or ended it meanwhile."""
        steps, epoch = session.update(request, version), session.epoch
        is_more = True
        while is_more:
            before = len(session.partitions)
            is_more = next(steps, steps) is None
            self._held += len(session.partitions) - before
            if is_more:
                yield None
                if self._sessions.get(session.id) is not session:
                    raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
                if session.epoch != epoch:
                    raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    def _full(self, request: Any, version: int, is_privileged: bool) -> Steps[Fetching]:
        """A full fetch: it ends the session that it names, and may begin a new one."""
        ended = self._sessions.get(request.session_id)
        if ended is not None:
            self._end(ended)
        partitions: dict[PartitionKey, FetchPartition] = {}
        done = 0
        for topic in request.topics:
            key = _topic_key(topic, version)
            for partition in topic.partitions:
                partitions[key, partition.partition] = _fetch_partition(key, partition, version)
                done += 1
                if done % PARTITIONS_PER_STEP == 0:
                    yield None
        requested = list(partitions.values())
        if request.session_epoch == FINAL_EPOCH or not requested:
            return Fetching(requested)
        if not self._make_room(len(requested), is_privileged):
            return Fetching(requested)
        by_id, now_ms = version >= TOPIC_IDS_SINCE, self._now_ms()
        session = Session(self._new_id(), by_id, now_ms, is_privileged=is_privileged)
        session.partitions = partitions
        self._sessions[session.id] = session
        self._held += len(requested)
        return Fetching(requested, session, False, session.epoch)

    def end_without_response(self, fetching: Fetching) -> None:
        """End the session that a request has begun, which gets no response."""
        session = fetching.session
        if session is not None and self._sessions.get(session.id) is session:
            self._end(session)

    def _end(self, session: Session) -> None:
        del self._sessions[session.id]
        self._held -= len(session.partitions)

    def _now_ms(self) -> float:
        return self._clock.monotonic_s() * 1000

    def _touch(self, session: Session) -> None:
        session.used_ms = self._now_ms()
        # The dict is in order of use: the first is the one unused for the longest time.
        del self._sessions[session.id]
        self._sessions[session.id] = session

    def _make_room(self, partitions: int, is_privileged: bool) -> bool:
        """Whether one more session fits, after evicting those that are out of use, and for a
        follower's those of consumers."""
        while not self._fits(partitions, slots=1):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._now_ms() - oldest.used_ms < EVICTION_MS_MIN:
                return is_privileged and self._evict_consumers(partitions, slots=1)
            self._evict(oldest)
        return True

    def _fits(self, partitions: int, *, slots: int) -> bool:
        """Whether there is room for so many more partitions and sessions."""
        has_slots = len(self._sessions) + slots <= self._slots
        return has_slots and self._held + partitions <= PARTITIONS_MAX

    def _evict_consumers(self, partitions: int, *, slots: int) -> bool:
        """Evict sessions of consumers until there is room, the smallest first, as in Apache Kafka.
        If that is not enough, none is evicted, and the result is False."""
        of_consumers = [session for session in self._sessions.values() if not session.is_privileged]
        freed = sum(len(session.partitions) for session in of_consumers)
        if not self._fits(partitions - freed, slots=slots - len(of_consumers)):
            return False
        for session in sorted(
            of_consumers, key=lambda session: (len(session.partitions), session.id)
        ):
            if self._fits(partitions, slots=slots):
                break
            self._evict(session)
        return True

    def _evict(self, session: Session) -> None:
        self._end(session)
        self.evictions += 1

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _ID_MAX)
            if session_id not in self._sessions:
                return session_id
