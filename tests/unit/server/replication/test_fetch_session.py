"""Both sides of a follower's fetch session: whatever is lost between them, the leader fetches what
the follower wants, and the follower hears of all that changed.

The model knows nothing of sessions. It has a dict of what the follower wants, and for each
partition what the leader has last said of it in a response that arrived.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.replica.fetch_sessions import Fetching, FetchPartition, FetchSessions
from kavka.server.replication.fetch_session import (
    EPOCH_MAX,
    FetchRequestPartition,
    FetchSession,
    SessionRequest,
    TopicIdPartition,
)
from kavka.wire.apis.fetch import EpochEndOffset, PartitionResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.virtual import VirtualClock

VERSION = 17
TOPICS = [UUID(int=number) for number in (1, 2, 3)]
PLACES: list[TopicIdPartition] = [(topic.bytes, index) for topic in TOPICS for index in range(3)]


class State(NamedTuple):
    """Of a partition on the leader: what a response says of it, if there are no records."""

    high_watermark: int = 0
    log_start: int = 0
    error: int = 0


class Leader:
    """A broker with nothing but sessions."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.chance = random.Random(1)
        self.restart()
        self.states = dict.fromkeys(PLACES, State())
        self.records: dict[TopicIdPartition, bytes] = {}
        self.diverging: set[TopicIdPartition] = set()

    def restart(self) -> None:
        """Forget all sessions; later ones have other ids."""
        self.sessions = FetchSessions(self.clock, self.chance, slots=2)

    def begin(self, request: SessionRequest, version: int = VERSION) -> Fetching:
        steps = self.sessions.begin_in_steps(on_wire(request), version, is_privileged=True)
        return run_at_once(steps)

    def answer(self, fetching: Fetching) -> dict[TopicIdPartition, PartitionResponse]:
        """What is in the response."""
        answered = {}
        for requested in fetching.partitions:
            topic_id_partition = topic_id_partition_of(requested)
            state = self.states[topic_id_partition]
            partition = PartitionResponse(
                requested.partition,
                state.error,
                state.high_watermark,
                log_start_offset=state.log_start,
                records=b"" if state.error else self.records.get(topic_id_partition, b""),
            )
            if topic_id_partition in self.diverging:
                partition.diverging_epoch = EpochEndOffset(1, 1)
            if fetching.keep(requested, partition):
                answered[topic_id_partition] = partition
        return answered


def on_wire(request: SessionRequest) -> Any:
    return SimpleNamespace(
        session_id=request.session_id,
        session_epoch=request.epoch,
        topics=[
            SimpleNamespace(
                topic="",
                topic_id=UUID(bytes=topic_id),
                partitions=[
                    SimpleNamespace(
                        partition=index,
                        fetch_offset=requested.offset,
                        partition_max_bytes=1000,
                        current_leader_epoch=requested.leader_epoch,
                        last_fetched_epoch=requested.last_epoch,
                        log_start_offset=requested.log_start,
                    )
                ],
            )
            for (topic_id, index), requested in request.partitions.items()
        ],
        forgotten_topics_data=[
            SimpleNamespace(topic="", topic_id=UUID(bytes=topic_id), partitions=[index])
            for topic_id, index in request.forgotten
        ],
    )


def topic_id_partition_of(requested: FetchPartition) -> TopicIdPartition:
    assert isinstance(requested.topic, UUID)
    return requested.topic.bytes, requested.partition


def as_request_partition(requested: FetchPartition) -> FetchRequestPartition:
    return FetchRequestPartition(
        requested.current_leader_epoch,
        requested.offset,
        requested.last_fetched_epoch,
        requested.follower_start,
    )


def request_for(
    follower: FetchSession, to_fetch: dict[TopicIdPartition, FetchRequestPartition]
) -> SessionRequest:
    """The request after which exactly `to_fetch` is fetched."""
    for topic_id_partition in PLACES:
        if topic_id_partition in to_fetch:
            follower.fetch(topic_id_partition, to_fetch[topic_id_partition])
        else:
            follower.forget(topic_id_partition)
    return follower.request()


class Pair:
    """A follower, its leader, and what lies between them."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.follower = FetchSession()
        self.to_fetch: dict[TopicIdPartition, FetchRequestPartition] = {}
        self.sent: dict[TopicIdPartition, State] = {}
        self.offsets: dict[TopicIdPartition, int] = {}
        """Those of the last request."""
        self.full_requests = 0

    def fetch(self, fate: str) -> None:
        """One request and what becomes of it."""
        to_fetch = dict(self.to_fetch)
        if not to_fetch:
            return  # a fetcher asks for nothing then
        request = request_for(self.follower, to_fetch)
        self.full_requests += request.is_full
        if fate == "request lost":
            self.follower.failed()
            return
        try:
            fetching = self.leader.begin(request)
        except ApiError as error:
            assert not request.is_full, "a full request needs no session"
            assert self.follower.refused(error.code), "it asks again at once"
            again = self.follower.request()
            assert again.is_full
            self.full_requests += 1
            request, fetching = again, self.leader.begin(again)
        assert {
            topic_id_partition_of(requested): as_request_partition(requested)
            for requested in fetching.partitions
        } == to_fetch
        answered = self.leader.answer(fetching)
        if fate == "response lost":
            self.follower.failed()
            return
        self._check_answer(request, to_fetch, answered)
        assert self.follower.responded(fetching.session_id, answered)
        for topic_id_partition in answered:
            self.sent[topic_id_partition] = self.leader.states[topic_id_partition]
        for topic_id_partition in self.leader.diverging & self.sent.keys():
            del self.sent[topic_id_partition]  # it truncates its log first, and hears the rest then
        self.offsets = {
            topic_id_partition: requested.offset
            for topic_id_partition, requested in to_fetch.items()
        }
        for topic_id_partition in self.sent.keys() - to_fetch.keys():
            del self.sent[topic_id_partition]  # when it is fetched again it hears all of it again

    def _check_answer(
        self,
        request: SessionRequest,
        to_fetch: dict[TopicIdPartition, FetchRequestPartition],
        answered: dict[TopicIdPartition, Any],
    ) -> None:
        states = self.leader.states
        expected = {
            topic_id_partition
            for topic_id_partition in to_fetch
            if self.leader.records.get(topic_id_partition)
            or topic_id_partition in self.leader.diverging
            or states[topic_id_partition].error
            or self.sent.get(topic_id_partition) != states[topic_id_partition]
            or self._begins_anew(request, topic_id_partition)
        }
        assert answered.keys() == (to_fetch.keys() if request.is_full else expected)

    def _begins_anew(self, request: SessionRequest, topic_id_partition: TopicIdPartition) -> bool:
        """Whether a request names it although no records have come since the last one."""
        requested = request.partitions.get(topic_id_partition)
        return requested is not None and requested.offset == self.offsets.get(topic_id_partition)


partitions = st.sampled_from(PLACES)
numbers = st.integers(0, 3)
happenings = st.one_of(
    st.tuples(
        st.just("want"),
        partitions,
        st.builds(FetchRequestPartition, numbers, numbers, numbers, numbers),
    ),
    st.tuples(st.just("drop"), partitions),
    st.tuples(st.just("state"), partitions, st.builds(State, numbers, numbers)),
    st.tuples(st.just("error"), partitions, st.sampled_from([3, 6, 74, 75, 100, 103])),
    st.tuples(st.just("records"), partitions, st.sampled_from([b"", b"x"])),
    st.tuples(st.just("diverge"), partitions, st.booleans()),
    st.tuples(st.just("evicted")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fetch"), st.sampled_from(["", "", "", "request lost", "response lost"])),
)


def happen(pair: Pair, event: tuple[Any, ...]) -> None:
    leader = pair.leader
    match event:
        case ("want", topic_id_partition, requested):
            pair.to_fetch[topic_id_partition] = requested
        case ("drop", topic_id_partition):
            pair.to_fetch.pop(topic_id_partition, None)
        case ("state", topic_id_partition, state):
            leader.states[topic_id_partition] = state
        case ("error", topic_id_partition, code):
            leader.states[topic_id_partition] = State(-1, -1, code)
        case ("records", topic_id_partition, data):
            leader.records[topic_id_partition] = data
        case ("diverge", topic_id_partition, True):
            leader.diverging.add(topic_id_partition)
        case ("diverge", topic_id_partition, False):
            leader.diverging.discard(topic_id_partition)
        case ("evicted",):
            leader.clock.elapsed_ms += 1_000_000
            for number in range(2):
                leader.begin(
                    SessionRequest(0, 0, {PLACES[number]: FetchRequestPartition(0, 0, 0, 0)}, ())
                )
        case ("restart",):
            leader.restart()
        case ("fetch", fate):
            pair.fetch(fate)


@settings(max_examples=300)
@given(st.lists(happenings, max_size=60))
def test_leader_and_follower_agree_on_what_is_fetched(events: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    pair.to_fetch[PLACES[0]] = FetchRequestPartition(0, 0, -1, 0)
    for event in events:
        happen(pair, event)
    pair.fetch("")


def test_requests_name_what_changed() -> None:
    pair, first = Pair(), FetchRequestPartition(0, 0, -1, 0)
    pair.to_fetch = dict.fromkeys(PLACES, first)
    pair.fetch("")
    following = pair.follower
    moved = {**pair.to_fetch, PLACES[1]: FetchRequestPartition(0, 5, 0, 0)}
    del moved[PLACES[2]]
    request = request_for(following, moved)
    assert (request.epoch, dict(request.partitions)) == (
        1,
        {PLACES[1]: FetchRequestPartition(0, 5, 0, 0)},
    )
    assert list(request.forgotten) == [PLACES[2]]
    assert following.responded(request.session_id, [])
    request = request_for(following, moved)
    assert (request.epoch, dict(request.partitions), list(request.forgotten)) == (2, {}, [])
    assert following.responded(request.session_id, [PLACES[1]])


def session(*partitions: TopicIdPartition) -> FetchSession:
    """One that leader 7's session has been begun for."""
    following = FetchSession()
    request = request_for(following, dict.fromkeys(partitions, FetchRequestPartition(0, 0, -1, 0)))
    assert request.is_full and request.session_id == 0
    assert following.responded(7, partitions)
    return following


def next_of(following: FetchSession) -> tuple[int, int, int]:
    """Session, epoch, and how many partitions the next request names."""
    request = following.request()
    return request.session_id, request.epoch, len(request.partitions)


def test_the_epoch_wraps_to_one() -> None:
    following = session(PLACES[0])
    following._epoch = EPOCH_MAX
    assert next_of(following) == (7, EPOCH_MAX, 0)
    assert following.responded(7, [])
    assert next_of(following) == (7, 1, 0)


def test_after_an_error_all_is_asked_anew() -> None:
    """As FetchSessionHandler: the id is kept, so that the leader ends that session, unless it knows
    none."""
    for code, at_once, session_id in (
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, True, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, True, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, True, 7),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, 7),
    ):
        following = session(*PLACES[:2])
        assert next_of(following) == (7, 1, 0)
        assert following.refused(code) == at_once
        assert next_of(following) == (session_id, 0, 2)
        assert not following.refused(code), "a full request that is refused is not repeated at once"
    following = session(*PLACES[:2])
    assert next_of(following) == (7, 1, 0)
    following.failed()
    assert next_of(following) == (7, 0, 2)


def test_a_leader_without_room_is_asked_for_all_each_time() -> None:
    following = session(*PLACES[:2])
    assert next_of(following) == (7, 1, 0)
    assert following.responded(0, [PLACES[0]]), "the session has ended, and the response counts"
    assert next_of(following) == (0, 0, 2)
    assert following.responded(0, PLACES[:2])
    assert next_of(following) == (0, 0, 2)


def test_a_response_for_other_partitions_does_not_count() -> None:
    following = session(*PLACES[:2])
    assert next_of(following) == (7, 1, 0)
    assert not following.responded(7, [PLACES[2]])
    assert next_of(following) == (7, 0, 2)
    assert not following.responded(8, [PLACES[0]]), "a full response has all"
    assert next_of(following) == (7, 0, 2)
    assert following.responded(8, PLACES[:2])
    assert next_of(following) == (8, 1, 0)


def test_a_session_of_another_kind_is_refused() -> None:
    """FETCH_SESSION_TOPIC_ID_ERROR: by names instead of by ids."""
    pair = Pair()
    pair.to_fetch = {PLACES[0]: FetchRequestPartition(0, 0, -1, 0)}
    pair.fetch("")
    request = request_for(pair.follower, pair.to_fetch)
    with pytest.raises(ApiError) as caught:
        pair.leader.begin(request, version=12)
    assert caught.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert pair.follower.refused(caught.value.code)
    pair.fetch("")
