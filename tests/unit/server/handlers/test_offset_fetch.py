"""OffsetFetch. See also the scenarios and the differential cases."""

from __future__ import annotations

import pytest

from kavka.groupcoord.offsets import Commit, OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, Producer, ReplyFuture
from kavka.wire.apis.offset_fetch import API
from kavka.wire.errors import ErrorCode as Code
from support.group_requests import make_topic, occupy
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import commit, fetch

VERSIONS = range(1, API.highest + 1)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
TOPICS = {"a": 2, "b": 1}
NONE = (-1, 0)
OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("version", VERSIONS)
@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_while_something_takes_long(
    broker: MemoryBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is not said to have no offsets before it was looked up."""
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    for places in ([A0, B0], None) if version >= 2 else ([A0, B0],):
        occupy(broker, monkeypatch)
        assert await fetch(broker, places, version) == {A0: (5, 0), B0: (7, 0)}
    occupy(broker, monkeypatch)
    assert await fetch(broker, [A0], version, group_id="nobody") == {A0: NONE}


def commit_in_transaction(broker: MemoryBroker) -> None:
    """What TxnOffsetCommit of A0 will do, once it is served."""
    replica = broker.replica(OFFSETS, broker.parts.groups.partition_of("g"))
    guard = replica.log.producers.verifications.begin(7, 0, 0, broker.clock.now_ms())
    offsets = Commit("g", "", None, -1, 3, [OffsetToCommit("a", 0, 9)])

    def ask(shard: GroupShard, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        producer = Producer(7, 0, guard)
        return shard.offsets.commit_transactional(offsets, producer, future, now_ms)

    assert broker.parts.groups.call("g", ask) == [0]


@scenario(topics=TOPICS)
async def test_offsets_of_an_open_transaction(broker: MemoryBroker) -> None:
    """KIP-447."""
    await make_topic(broker)
    await commit(broker, {A0: 5, A1: 6})
    commit_in_transaction(broker)
    assert await fetch(broker) == {A0: (5, 0), A1: (6, 0)}
    unstable = {A0: (-1, Code.UNSTABLE_OFFSET_COMMIT), A1: (6, 0)}
    for version in range(7, API.highest + 1):
        assert await fetch(broker, [A0, A1], version, require_stable=True) == unstable
        assert await fetch(broker, None, version, require_stable=True) == unstable
    await broker.kill()
    assert await fetch(broker, [A0, A1], require_stable=True) == unstable


@pytest.mark.parametrize("version", VERSIONS)
@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_offsets_of_a_deleted_topic_are_not_those_of_a_new_one(
    broker: MemoryBroker, version: int
) -> None:
    """Though the broker dies before it has deleted them."""
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    await broker.ask("DeleteTopics", 5, topic_names=["a"], timeout_ms=10_000)
    await broker.kill()
    await broker.create("a", 2)
    await broker.advance(0)
    for places in ([A0, B0], None) if version >= 2 else ([A0, B0],):
        assert await fetch(broker, places, version) == {A0: NONE, B0: (7, 0)}
    await commit(broker, {A0: 6})
    assert await fetch(broker, [A0, B0], version) == {A0: (6, 0), B0: (7, 0)}
