"""Fetch sessions (KIP-227), asked as the Java client's FetchSessionHandler asks."""

import random
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from kavka.server.replica.fetch_sessions import (
    EVICTION_MS_MIN,
    FINAL_EPOCH,
    Fetching,
    FetchSessions,
)
from kavka.wire.apis.fetch import EpochEndOffset, PartitionResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.virtual import VirtualClock


def fetch_partition(
    partition: int, offset: int = 0, *, leader_epoch: int = -1, log_start: int = -1
) -> SimpleNamespace:
    return SimpleNamespace(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=1000,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=-1,
        log_start_offset=log_start,
    )


def request(
    session_id: int = 0,
    epoch: int = 0,
    partitions: Sequence[SimpleNamespace] = (),
    forgotten: Sequence[int] = (),
) -> SimpleNamespace:
    topic = SimpleNamespace(topic="t", topic_id=None, partitions=list(partitions))
    forget = SimpleNamespace(topic="t", topic_id=None, partitions=list(forgotten))
    return SimpleNamespace(
        session_id=session_id,
        session_epoch=epoch,
        topics=[topic] if partitions else [],
        forgotten_topics_data=[forget] if forgotten else [],
    )


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def sessions(clock: VirtualClock) -> FetchSessions:
    return FetchSessions(clock, random.Random(1), slots=2)


def begin(sessions: FetchSessions, fetch_request: SimpleNamespace, version: int = 12) -> Fetching:
    return run_at_once(sessions.begin_in_steps(fetch_request, version))


def error_of(
    sessions: FetchSessions, fetch_request: SimpleNamespace, version: int = 12
) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        begin(sessions, fetch_request, version)
    return caught.value.code


def test_without_a_session_all_partitions_are_in_the_response(sessions: FetchSessions) -> None:
    fetching = begin(sessions, request(epoch=FINAL_EPOCH, partitions=[fetch_partition(0)]))
    assert fetching.session_id == 0
    assert fetching.keep(fetching.partitions[0], PartitionResponse(0))
    assert len(sessions) == 0


def test_a_full_request_begins_a_session_for_incremental_ones(
    sessions: FetchSessions,
) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0), fetch_partition(1)]))
    assert full.session_id > 0
    for partition in full.partitions:
        assert full.keep(partition, PartitionResponse(partition.partition, high_watermark=5))
    again = begin(sessions, request(full.session_id, 1, [fetch_partition(1, offset=3)]))
    assert [(partition.partition, partition.offset) for partition in again.partitions] == [
        (0, 0),
        (1, 3),
    ]
    sent = [
        again.keep(
            partition,
            PartitionResponse(partition.partition, high_watermark=5 + partition.partition),
        )
        for partition in again.partitions
    ]
    assert sent == [False, True], "only changed partitions"


def test_a_partition_with_records_moves_to_the_end(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0), fetch_partition(1)]))
    for partition in full.partitions:
        full.keep(partition, PartitionResponse(partition.partition))
    second = begin(sessions, request(full.session_id, 1))
    assert second.keep(second.partitions[0], PartitionResponse(0, records=b"x"))
    third = begin(sessions, request(full.session_id, 2))
    assert [partition.partition for partition in third.partitions] == [1, 0]


def test_errors_are_in_every_response_and_so_is_their_end(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0)]))
    full.keep(full.partitions[0], PartitionResponse(0, high_watermark=5, log_start_offset=0))
    broken = PartitionResponse(0, error_code=6)
    for epoch in (1, 2):
        fetching = begin(sessions, request(full.session_id, epoch))
        assert fetching.keep(fetching.partitions[0], broken)
    healed = begin(sessions, request(full.session_id, 3))
    answer = PartitionResponse(0, high_watermark=5, log_start_offset=0)
    assert healed.keep(healed.partitions[0], answer)


def test_a_follower_that_truncates_its_log_hears_the_high_watermark_again(
    sessions: FetchSessions,
) -> None:
    """It does not take that of the response that has it truncate."""
    full = begin(sessions, request(partitions=[fetch_partition(0, 9, log_start=0)]))
    diverging = PartitionResponse(0, 0, 5, diverging_epoch=EpochEndOffset(1, 5))
    assert full.keep(full.partitions[0], diverging)
    truncated = begin(sessions, request(full.session_id, 1, [fetch_partition(0, 5, log_start=0)]))
    assert truncated.keep(truncated.partitions[0], PartitionResponse(0, 0, 5))
    in_sync = begin(sessions, request(full.session_id, 2))
    assert not in_sync.keep(in_sync.partitions[0], PartitionResponse(0, 0, 5))


@pytest.mark.parametrize("leader_epoch", [3, 4])
def test_a_follower_that_begins_anew_hears_the_high_watermark_again(
    sessions: FetchSessions, leader_epoch: int
) -> None:
    """In the same leader epoch or in a later one: it has dropped the response in flight."""
    before = fetch_partition(0, 5, leader_epoch=3, log_start=0)
    full = begin(sessions, request(partitions=[before]))
    assert full.keep(full.partitions[0], PartitionResponse(0, 0, 5))
    now = fetch_partition(0, 5, leader_epoch=leader_epoch, log_start=0)
    anew = begin(sessions, request(full.session_id, 1, [now]))
    assert anew.keep(anew.partitions[0], PartitionResponse(0, 0, 5))


def test_a_follower_that_has_taken_records_hears_nothing_twice(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0, 5, log_start=0)]))
    assert full.keep(full.partitions[0], PartitionResponse(0, 0, 6, records=b"x"))
    after = begin(sessions, request(full.session_id, 1, [fetch_partition(0, 6, log_start=0)]))
    assert not after.keep(after.partitions[0], PartitionResponse(0, 0, 6))


def test_forgotten_partitions_are_removed_and_an_empty_session_ends(
    sessions: FetchSessions,
) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0), fetch_partition(1)]))
    rest = begin(sessions, request(full.session_id, 1, forgotten=[0]))
    assert [partition.partition for partition in rest.partitions] == [1]
    nothing = begin(sessions, request(full.session_id, 2, forgotten=[1]))
    assert nothing.session_id == 0
    assert len(sessions) == 0


def test_error_codes_of_sessions(sessions: FetchSessions) -> None:
    assert error_of(sessions, request(77, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    full = begin(sessions, request(partitions=[fetch_partition(0)]))
    wrong_epoch = request(full.session_id, 2)
    assert error_of(sessions, wrong_epoch) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = request(full.session_id, 1)
    assert error_of(sessions, by_id, version=13) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_later_request_invalidates_a_waiting_one(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0)]))
    waiting = begin(sessions, request(full.session_id, 1))
    begin(sessions, request(full.session_id, 2))
    with pytest.raises(ApiError) as caught:
        waiting.check_current()
    assert caught.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_closing_a_session_frees_its_slot(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0)]))
    closing = begin(sessions, request(full.session_id, FINAL_EPOCH, [fetch_partition(0)]))
    assert closing.session_id == 0
    assert len(sessions) == 0


def test_slots_are_bounded_and_only_unused_sessions_are_evicted(
    sessions: FetchSessions, clock: VirtualClock
) -> None:
    first = begin(sessions, request(partitions=[fetch_partition(0)]))
    second = begin(sessions, request(partitions=[fetch_partition(0)]))
    refused = begin(sessions, request(partitions=[fetch_partition(0)]))
    assert refused.session_id == 0 and refused.partitions, "it is served, without a session"
    clock.elapsed_ms += EVICTION_MS_MIN
    begin(sessions, request(first.session_id, 1))
    third = begin(sessions, request(partitions=[fetch_partition(0)]))
    assert third.session_id > 0
    assert error_of(sessions, request(second.session_id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    begin(sessions, request(first.session_id, 2))


def test_partitions_of_all_sessions_are_bounded(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.server.replica.fetch_sessions.PARTITIONS_MAX", 10)
    sessions = FetchSessions(clock, random.Random(1), slots=5)

    def session_of(count: int, session_id: int = 0) -> int:
        partitions = [fetch_partition(index) for index in range(count)]
        return begin(sessions, request(session_id, partitions=partitions)).session_id

    first, second = session_of(6), session_of(4)
    assert first and second
    assert session_of(1) == 0, "it fetches without one"
    assert session_of(3, second) and session_of(1), "what one ends with is free for others"

    more = request(first, 1, partitions=[fetch_partition(6)])
    assert error_of(sessions, more) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session_of(6), "a session that grew too big is gone"
    clock.elapsed_ms += EVICTION_MS_MIN
    assert session_of(10), "unused sessions are evicted"
    assert len(sessions) == 1


def test_forgotten_partitions_free_their_share(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.server.replica.fetch_sessions.PARTITIONS_MAX", 10)
    sessions = FetchSessions(clock, random.Random(1), slots=5)
    full = request(partitions=[fetch_partition(index) for index in range(10)])
    first = begin(sessions, full).session_id
    begin(sessions, request(first, 1, forgotten=[0, 1, 2]))
    assert begin(
        sessions, request(partitions=[fetch_partition(0), fetch_partition(1), fetch_partition(2)])
    ).session_id
    begin(sessions, request(first, 2, partitions=[fetch_partition(5, 77)]))  # no new one


def session_of(
    sessions: FetchSessions, count: int, session_id: int = 0, *, is_privileged: bool = False
) -> int:
    """A session for so many partitions; 0 if there is no room for it."""
    full = request(session_id, partitions=[fetch_partition(index) for index in range(count)])
    steps = sessions.begin_in_steps(full, 12, is_privileged=is_privileged)
    return run_at_once(steps).session_id


def ids(sessions: FetchSessions) -> set[int]:
    return {session.id for session in sessions}


def test_followers_take_the_slots_of_consumers_the_smallest_first(clock: VirtualClock) -> None:
    """As FetchSessionCache does, where the session of a follower is privileged."""
    sessions = FetchSessions(clock, random.Random(1), slots=3)
    big, small = session_of(sessions, 3), session_of(sessions, 2)
    follower = session_of(sessions, 1, is_privileged=True)
    assert ids(sessions) == {big, small, follower} and sessions.evictions == 0
    second = session_of(sessions, 1, is_privileged=True)
    assert ids(sessions) == {big, follower, second}
    third = session_of(sessions, 1, is_privileged=True)
    assert ids(sessions) == {second, follower, third} and sessions.evictions == 2
    assert not session_of(sessions, 1, is_privileged=True), "of another follower's none is taken"
    assert not session_of(sessions, 9)
    clock.elapsed_ms += EVICTION_MS_MIN
    assert session_of(sessions, 1), "unless it is out of use"


def test_followers_take_the_room_of_consumers(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.server.replica.fetch_sessions.PARTITIONS_MAX", 10)
    sessions = FetchSessions(clock, random.Random(1), slots=9)
    consumers = [session_of(sessions, count) for count in (4, 1, 2)]
    assert not session_of(sessions, 11, is_privileged=True)
    assert ids(sessions) == set(consumers), "none is evicted in vain"
    follower = session_of(sessions, 5, is_privileged=True)
    assert ids(sessions) == {consumers[0], follower}
    more = request(follower, 1, partitions=[fetch_partition(index) for index in (5, 6)])
    begin(sessions, more)
    assert ids(sessions) == {follower}
    too_many = request(follower, 2, partitions=[fetch_partition(index) for index in range(7, 11)])
    assert error_of(sessions, too_many) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session_of(sessions, 10), "what it had is free"


def test_the_epoch_wraps_to_one(sessions: FetchSessions) -> None:
    full = begin(sessions, request(partitions=[fetch_partition(0)]))
    (session,) = sessions
    session.epoch = 2**31 - 1
    fetching = begin(sessions, request(full.session_id, 2**31 - 1))
    assert fetching.epoch == 1
