"""Requests of members of classic groups that are sent behind a JoinGroup or SyncGroup which waits
for the other members: they find the group as that request has left it. With
KAFKA_TEST_BROKER=apache it is shown that Apache Kafka does the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode as Code
from support.broker import StartBroker
from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.raw import RawConnection
from support.wait import eventually

SETTINGS = {"group.initial.rebalance.delay.ms": "1000", "offsets.topic.num.partitions": "1"}
GROUP, TOPIC = "g", "t"
WITHIN_S = 60.0


class Member:
    """A member, on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.connection = RawConnection(HOST, port)
        self.id = ""
        self.generation = -1
        self.is_leader = False
        self._sent: list[tuple[str, int]] = []
        self._received = 0

    def _send(self, api: str, version: int, **values: Any) -> None:
        self.connection.send(api, version, group_id=GROUP, **values)
        self._sent.append((api, version))

    def receive(self) -> dict[str, Any]:
        """The next answer, which is in its place."""
        correlation_id, found = self.connection.receive(*self._sent[self._received])
        self._received += 1
        assert correlation_id == self._received
        return found

    def join(self) -> None:
        self._send(
            "JoinGroup",
            2,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"m"}],
        )

    def joined(self) -> Code:
        found = self.receive()
        self.id, self.generation = found["member_id"], found["generation_id"]
        self.is_leader = found["leader"] == self.id
        return Code(found["error_code"])

    def sync(self, generation: int, members: Sequence[str] = ()) -> None:
        """With assignments for `members`, as from the leader."""
        assignments = [{"member_id": member_id, "assignment": b"a"} for member_id in members]
        self._send(
            "SyncGroup",
            1,
            generation_id=generation,
            member_id=self.id,
            assignments=assignments,
        )

    def beat(self, generation: int) -> None:
        self._send("Heartbeat", 1, generation_id=generation, member_id=self.id)

    def commit(self, generation: int, offset: int) -> None:
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_metadata": "",
        }
        self._send(
            "OffsetCommit",
            2,
            generation_id_or_member_epoch=generation,
            member_id=self.id,
            retention_time_ms=-1,
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )

    def committed(self) -> Code:
        return Code(self.receive()["topics"][0]["partitions"][0]["error_code"])

    def fetch_offset(self) -> None:
        self._send("OffsetFetch", 1, topics=[{"name": TOPIC, "partition_indexes": [0]}])

    def offset(self) -> int:
        found: int = self.receive()["topics"][0]["partitions"][0]["committed_offset"]
        return found

    def code(self) -> Code:
        return Code(self.receive()["error_code"])


@pytest.fixture
def members(start_broker: StartBroker) -> Iterator[list[Member]]:
    """Two members of a stable group, the leader leader."""
    broker = start_broker(**SETTINGS)
    create_topic(broker.bootstrap, TOPIC, 1)
    with RawConnection(HOST, broker.port) as client:
        eventually(
            lambda: (
                client.request("FindCoordinator", 0, key=GROUP)["error_code"] == Code.NONE
                and client.request("DescribeGroups", 0, groups=[GROUP])["groups"][0]["error_code"]
                == Code.NONE
            ),
            within_s=WITHIN_S,
            what="the group has its coordinator",
        )
    with ExitStack() as stack:
        found = [Member(broker.port) for _ in range(2)]
        for member in found:
            stack.enter_context(member.connection)
        for member in found:
            member.join()
        assert [member.joined() for member in found] == [Code.NONE] * 2
        for member in found:
            member.sync(member.generation, ids(found) if member.is_leader else ())
        assert [member.code() for member in found] == [Code.NONE] * 2
        yield sorted(found, key=lambda each: not each.is_leader)


def ids(members: Sequence[Member]) -> list[str]:
    return [member.id for member in members]


def await_rebalance(member: Member) -> None:
    """Until another member has joined anew, which the group's next generation waits for."""

    def has_begun() -> bool:
        member.beat(member.generation)
        return member.code() == Code.REBALANCE_IN_PROGRESS

    eventually(has_begun, within_s=WITHIN_S, what="the rebalance has begun")


def test_behind_a_join(members: list[Member]) -> None:
    leader, other = members
    old, new = leader.generation, leader.generation + 1
    leader.join()
    leader.commit(old, 3)
    leader.fetch_offset()
    leader.sync(new, ids(members))
    leader.beat(old)
    leader.beat(new)
    leader.commit(new, 7)
    leader.fetch_offset()
    await_rebalance(other)
    other.join()
    other.sync(new, ids(members))
    assert (leader.joined(), leader.generation) == (Code.NONE, new)
    assert (leader.committed(), leader.offset()) == (Code.ILLEGAL_GENERATION, -1)
    assert [leader.code() for _ in range(3)] == [Code.NONE, Code.ILLEGAL_GENERATION, Code.NONE]
    assert (leader.committed(), leader.offset()) == (Code.NONE, 7)
    assert (other.joined(), other.code()) == (Code.NONE, Code.NONE)


def test_behind_a_sync_that_waits_for_the_leader(members: list[Member]) -> None:
    leader, follower = members
    leader.join()
    await_rebalance(follower)
    follower.join()
    assert [member.joined() for member in members] == [Code.NONE] * 2
    follower.sync(follower.generation)
    follower.commit(follower.generation, 5)
    follower.beat(follower.generation)
    follower.fetch_offset()
    leader.beat(leader.generation)
    assert leader.code() in (Code.NONE, Code.REBALANCE_IN_PROGRESS), (
        "the follower's are there by now"
    )
    leader.sync(leader.generation, ids(members))
    assert (follower.code(), follower.committed()) == (Code.NONE, Code.NONE)
    assert (follower.code(), follower.offset()) == (Code.NONE, 5)
    assert leader.code() == Code.NONE
