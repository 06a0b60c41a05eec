"""What is followed of one leader, beside a model that looks at all of it each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kavka.server.replication.fetch_session import (
    FetchRequestPartition,
    FetchSession,
    TopicIdPartition,
)
from kavka.server.replication.followed import Followed, FollowedPartitions

KEYS = [("t", index) for index in range(4)]
keys = st.sampled_from(KEYS)


class Log:
    """As much of a log as is looked at here."""

    def __init__(self) -> None:
        self.start_offset = self.end_offset = 0

    def epoch_of(self, offset: int) -> int:
        return 0


def replica(key: tuple[str, int], topic: int, epoch: int) -> Any:
    return SimpleNamespace(
        key=key,
        topic_id=UUID(int=topic),
        log=Log(),
        partition=SimpleNamespace(leader_epoch=epoch),
    )


class Model(RuleBasedStateMachine):
    """Partitions come, go and change between requests and while one is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.session = FetchSession()
        self.partitions = FollowedPartitions(self.session)
        self.replicas: dict[tuple[str, int], Any] = {}
        self.left_out: set[tuple[str, int]] = set()
        self.in_flight: dict[TopicIdPartition, Followed] | None = None
        self.known: dict[TopicIdPartition, FetchRequestPartition] = {}
        """What the leader knows after the last request."""

    @rule(key=keys, topic=st.integers(1, 2), epoch=st.integers(0, 3))
    def add(self, key: tuple[str, int], topic: int, epoch: int) -> None:
        self.replicas[key] = replica(key, topic, epoch)
        self.partitions.add(self.replicas[key])

    @rule(key=keys)
    def remove(self, key: tuple[str, int]) -> None:
        self.replicas.pop(key, None)
        self.partitions.remove(key)

    @rule(key=keys, records=st.integers(0, 2), deleted=st.booleans())
    def change(self, key: tuple[str, int], records: int, deleted: bool) -> None:
        if key in self.replicas:
            log = self.replicas[key].log
            log.end_offset += records
            if deleted:
                log.start_offset = log.end_offset
        self.partitions.changed(key)

    @rule(key=keys)
    def may_be_due_or_not(self, key: tuple[str, int]) -> None:
        """Time, or the quota: nobody says so."""
        self.left_out ^= {key}

    @rule()
    def request(self) -> None:
        if self.in_flight is not None:
            return
        for followed in self.partitions.look():
            if followed.replica.key in self.left_out:
                self.partitions.leave_out(followed, watch=True)
            else:
                self.partitions.fetch(followed, watch=True)
        request = self.session.request()
        if request.is_full:
            self.known = dict(request.partitions)
        else:
            self.known |= request.partitions
            for topic_id_partition in request.forgotten:
                self.known.pop(topic_id_partition, None)
        assert self.known == {
            (replica.topic_id.bytes, key[1]): FetchRequestPartition(
                replica.partition.leader_epoch,
                replica.log.end_offset,
                0 if replica.log.end_offset > replica.log.start_offset else -1,
                replica.log.start_offset,
            )
            for key, replica in self.replicas.items()
            if key not in self.left_out
        }
        self.in_flight = dict(self.partitions.fetched)

    @rule(is_lost=st.booleans())
    def end(self, is_lost: bool) -> None:
        if self.in_flight is None:
            return
        if is_lost:
            self.session.failed()
        else:
            assert self.session.responded(7, list(self.in_flight))
        self.in_flight = None

    @invariant()
    def the_request_in_flight_stays_as_it_is(self) -> None:
        if self.in_flight is not None:
            assert self.partitions.fetched == self.in_flight

    @invariant()
    def nothing_else_is_followed(self) -> None:
        assert len(self.partitions) == len(self.replicas)


Model.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestFollowedPartitions = Model.TestCase


def partitions_of(count: int) -> FollowedPartitions:
    found = FollowedPartitions(FetchSession())
    for index in range(count):
        found.add(replica(("t", index), 1, 0))
    return found


def test_only_what_has_changed_is_looked_at() -> None:
    partitions = partitions_of(5)
    for followed in partitions.look():
        partitions.fetch(followed, watch=False)
    assert partitions.look() == []
    partitions.changed(("t", 3))
    (followed,) = partitions.look()
    assert followed.replica.key == ("t", 3)


def test_what_waits_is_looked_at_each_time() -> None:
    partitions = partitions_of(2)
    first, second = partitions.look()
    partitions.leave_out(first, watch=True)
    partitions.fetch(second, watch=False)
    assert partitions.look() == [first]
    partitions.leave_out(first, watch=False)
    assert partitions.look() == [], "its leader epoch is over"


def test_what_was_removed_is_held_no_longer_than_the_request_in_flight() -> None:
    partitions = partitions_of(1)
    (followed,) = partitions.look()
    partitions.fetch(followed, watch=True)
    partitions.remove(("t", 0))
    assert not partitions.is_followed(followed)
    assert list(partitions.fetched.values()) == [followed]
    assert list(partitions.to_look_at()) == []
    partitions.forget_removed()
    assert not partitions.fetched
