"""OffsetFetch: what is told of which groups. See also the differential cases."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kavka.groupcoord.offsets import Commit, OffsetToCommit
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, Producer, Ticket
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import offset_fetch
from kavka.wire.apis.offset_fetch import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import make_topic, occupy
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import commit, committing, fetch, fetching, found

VERSIONS = range(1, API.highest + 1)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
TOPICS = {"a": 2, "b": 1}
NONE = (-1, 0)
OFFSETS = "__consumer_offsets"


def group_code(answer: Any, version: int) -> int:
    """Where a version tells what is true of the whole group."""
    if version >= 8:
        (group,) = answer.groups
        return int(group.error_code)
    if version >= 2:
        return int(answer.error_code)
    (code,) = {one.error_code for topic in answer.topics for one in topic.partitions}
    return int(code)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics=TOPICS)
async def test_some_places(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    assert await fetch(broker, [A0, A1], version) == {A0: (5, 0), A1: NONE}
    assert await fetch(broker, [B0, ("b", 9)], version) == {B0: (7, 0), ("b", 9): NONE}
    assert await fetch(broker, [A0], version, group_id="nobody") == {A0: NONE}


@pytest.mark.parametrize("version", range(2, API.highest + 1))
@scenario(topics=TOPICS)
async def test_all_places(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    assert await fetch(broker, None, version) == {A0: (5, 0), B0: (7, 0)}
    assert await fetch(broker, None, version, group_id="nobody") == {}


@pytest.mark.parametrize("version", VERSIONS)
@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_while_something_takes_long(
    broker: MemoryBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nothing is found is not told because nobody has looked yet."""
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    for places in ([A0, B0], None) if version >= 2 else ([A0, B0],):
        occupy(broker, monkeypatch)
        assert await fetch(broker, places, version) == {A0: (5, 0), B0: (7, 0)}
    occupy(broker, monkeypatch)
    assert await fetch(broker, [A0], version, group_id="nobody") == {A0: NONE}


@scenario(topics=TOPICS)
async def test_what_comes_with_an_offset(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5}, committed_leader_epoch=3, committed_metadata="ä")
    answer = await broker.ask("OffsetFetch", 5, **fetching(broker, [A0, A1], 5))
    first, second = answer.topics[0].partitions
    assert (first.committed_leader_epoch, first.metadata) == (3, "ä")
    assert (second.committed_leader_epoch, second.metadata) == (-1, "")


@pytest.mark.parametrize("version", range(8, API.highest + 1))
@scenario(topics=TOPICS)
async def test_several_groups(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5})
    await commit(broker, {A0: 6}, group_id="h")
    groups = [
        fetching(broker, None, 1, group_id="h"),
        fetching(broker, [A0], 1, group_id="i"),
        fetching(broker, [A0], 1),
    ]
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "h"))
    answer = await broker.ask("OffsetFetch", version, groups=groups, require_stable=True)
    assert [one.group_id for one in answer.groups] == ["h", "i", "g"]
    assert [one.error_code for one in answer.groups] == [Code.GROUP_AUTHORIZATION_FAILED, 0, 0]
    offsets = [
        [p.committed_offset for t in one.topics for p in t.partitions] for one in answer.groups
    ]
    assert offsets == [[], [-1], [5]]


@pytest.mark.parametrize("version", range(API.highest + 1))
@scenario(topics=TOPICS)
async def test_who_may_not_ask_for_a_group(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "g"))
    answer = await broker.ask("OffsetFetch", version, **fetching(broker, [A0], version))
    assert group_code(answer, version) == Code.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(API.highest + 1))
@scenario(topics=TOPICS)
async def test_who_may_not_see_a_topic(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    await commit(broker, {A0: 5, B0: 7}, 0)
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "a"))
    answer = await fetch(broker, [A0, B0], version)
    assert answer == {A0: (-1, Code.TOPIC_AUTHORIZATION_FAILED), B0: (7, 0)}
    if version >= 2:
        assert await fetch(broker, None, version) == {B0: (7, 0)}


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics=TOPICS)
async def test_while_nobody_coordinates(broker: MemoryBroker, version: int) -> None:
    answer = await broker.ask("OffsetFetch", version, **fetching(broker, [A0], version))
    assert group_code(answer, version) == Code.NOT_COORDINATOR


@scenario(topics=TOPICS)
async def test_topics_by_id(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5})
    asked = fetching(broker, [A0, B0], 10)
    asked["groups"][0]["topics"][0]["topic_id"] = UUID(int=77)
    answer = await broker.ask("OffsetFetch", 10, **asked)
    received = [(one.topic_id, one.partitions[0].error_code) for one in answer.groups[0].topics]
    known = asked["groups"][0]["topics"][1]["topic_id"]
    assert received == [(known, 0), (UUID(int=77), Code.UNKNOWN_TOPIC_ID)]


def commit_in_transaction(broker: MemoryBroker) -> None:
    """What TxnOffsetCommit of A0 will do, once it is served."""
    replica = broker.replica(OFFSETS, broker.parts.groups.partition_of("g"))
    guard = replica.log.producers.verifications.begin(7, 0, 0, broker.clock.now_ms())
    asked = Commit("g", "", None, -1, 3, [OffsetToCommit("a", 0, 9)])

    def ask(shard: GroupShard, ticket: Ticket, now_ms: int) -> DecisionOrSteps:
        producer = Producer(7, 0, guard)
        return shard.offsets.commit_transactional(asked, producer, ticket, now_ms)

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


@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_only_what_is_committed_is_told(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5})
    broker.share((1, 2), OFFSETS)
    writing = broker.connect().send("OffsetCommit", 9, **committing(broker, {A0: 6}))
    asked = broker.client.send("OffsetFetch", 9, **fetching(broker, [A0], 9))
    await broker.advance(1_000)
    assert not writing.done() and not asked.done()
    broker.share((1,), OFFSETS)
    await broker.advance(0)
    assert found(broker, await asked, 9) == {A0: (6, 0)}


@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_a_coordinator_that_goes_while_it_is_asked(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.share((1, 2), OFFSETS)
    broker.connect().send("OffsetCommit", 9, **committing(broker, {A0: 6}))
    asked = broker.client.send("OffsetFetch", 9, **fetching(broker, [A0], 9))
    await broker.advance(5_000)
    assert group_code(await asked, 9) == Code.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("step", [1, 3, 4, 100])
@scenario(topics={"a": 9, "b": 2, "c": 1})
async def test_much_is_looked_up_in_steps(
    broker: MemoryBroker, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_topic(broker)
    places = [*(("a", index) for index in range(9)), ("b", 0), ("b", 1), ("c", 0)]
    offsets = {place: number for number, place in enumerate(places)}
    await commit(broker, offsets)
    monkeypatch.setattr(offset_fetch, "OFFSETS_A_STEP", step)
    expected = {place: (offset, 0) for place, offset in offsets.items()}
    for version in (7, 8, 10):
        assert await fetch(broker, None, version) == expected
        assert await fetch(broker, places, version) == expected
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "b"))
    del expected["b", 0], expected["b", 1]
    assert await fetch(broker, None, 8) == expected
