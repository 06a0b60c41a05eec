"""OffsetCommit: what is kept, and for how long. See also the differential cases, and
`tests/unit/groupcoord` for the rules."""

from __future__ import annotations

from uuid import UUID

import pytest

from kavka.groupcoord import offsets as offsets_of_groups
from kavka.groupcoord.offset_records import decode
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers.common import offset_commits
from kavka.wire.apis.offset_commit import API
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.records import read_header
from support.denied import Denied
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import codes, commit, committing, fetch, fetching, found

VERSIONS = range(1, API.highest + 1)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
TOPICS = {"a": 2, "b": 1}
MINUTE_MS = 60_000
OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics=TOPICS)
async def test_offsets_are_kept(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    answer = await commit(broker, {A0: 5, A1: 6, B0: 7}, version)
    assert answer == {A0: Code.NONE, A1: Code.NONE, B0: Code.NONE}
    assert await fetch(broker, version=9) == {A0: (5, 0), A1: (6, 0), B0: (7, 0)}


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics=TOPICS)
async def test_what_comes_with_an_offset(broker: MemoryBroker, version: int) -> None:
    """Leader epochs since version 6, a time of the commit in version 1."""
    await make_topic(broker)
    at_ms = broker.clock.now_ms() - 1000
    epochs = {"committed_leader_epoch": 7} if version >= 6 else {}
    times = {"commit_timestamp": at_ms} if version == 1 else {}
    assert await commit(broker, {A0: 5}, version, **epochs, **times) == {A0: Code.NONE}
    shard = broker.parts.groups.runners[broker.parts.groups.partition_of("g")].machine
    committed = decode(shard.offsets.store.get("g", "a", 0) or b"")
    assert committed is not None
    assert (committed.offset, committed.metadata) == (5, "text")
    assert committed.leader_epoch == (7 if version >= 6 else -1)
    assert committed.committed_at_ms == (at_ms if version == 1 else broker.clock.now_ms())


@scenario(topics=TOPICS)
async def test_offsets_are_kept_when_the_broker_is_killed(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 7})
    await commit(broker, {A0: 6}, group_id="h")
    await broker.kill()
    assert await fetch(broker) == {A0: (5, 0), B0: (7, 0)}
    assert await fetch(broker, group_id="h") == {A0: (6, 0)}


@scenario(topics=TOPICS)
async def test_what_is_refused_does_not_keep_the_rest(broker: MemoryBroker) -> None:
    await make_topic(broker)
    answer = await commit(broker, {A0: 5, ("a", 2): 5, ("a", -1): 5, ("c", 0): 5})
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == {("a", 2): unknown, ("a", -1): unknown, A0: 0, ("c", 0): unknown}
    assert await fetch(broker) == {A0: (5, 0)}


@scenario(topics=TOPICS)
async def test_topics_by_id(broker: MemoryBroker) -> None:
    await make_topic(broker)
    asked = committing(broker, {A0: 5, B0: 6})
    asked["topics"][1]["topic_id"] = UUID(int=77)
    answer = await broker.ask("OffsetCommit", 10, **asked)
    assert [(one.topic_id, one.partitions[0].error_code) for one in answer.topics] == [
        (UUID(int=77), Code.UNKNOWN_TOPIC_ID),
        (asked["topics"][0]["topic_id"], Code.NONE),
    ]


@pytest.mark.parametrize("version", range(API.highest + 1))
@scenario(topics=TOPICS)
async def test_who_may_not(broker: MemoryBroker, version: int) -> None:
    await make_topic(broker)
    broker.parts.authorizer = Denied((Operation.READ, "a"))
    answer = await commit(broker, {A0: 5, B0: 6}, version)
    assert answer == {A0: Code.TOPIC_AUTHORIZATION_FAILED, B0: Code.NONE}
    broker.parts.authorizer = Denied((Operation.READ, "g"))
    answer = await commit(broker, {A0: 5, B0: 6}, version)
    assert set(answer.values()) == {Code.GROUP_AUTHORIZATION_FAILED}


@scenario(topics=TOPICS)
async def test_while_nobody_coordinates(broker: MemoryBroker) -> None:
    answer = await commit(broker, {A0: 5, ("c", 0): 5})
    assert answer == {("c", 0): Code.UNKNOWN_TOPIC_OR_PARTITION, A0: Code.NOT_COORDINATOR}


@scenario(topics=TOPICS)
async def test_members_that_are_none(broker: MemoryBroker) -> None:
    await make_topic(broker)
    answer = await commit(broker, {A0: 5, A1: 5}, generation_id_or_member_epoch=0)
    assert answer == {A0: Code.GROUP_ID_NOT_FOUND, A1: Code.GROUP_ID_NOT_FOUND}


@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_the_answer_waits_for_the_other_replicas(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.share((1, 2), OFFSETS)
    asked = broker.client.send("OffsetCommit", 9, **committing(broker, {A0: 5}))
    await broker.advance(4_000)
    assert not asked.done()
    broker.share((1,), OFFSETS)
    await broker.advance(0)
    assert codes(broker, await asked) == {A0: Code.NONE}


@scenario("offsets.topic.num.partitions=1", topics=TOPICS)
async def test_but_not_for_ever(broker: MemoryBroker) -> None:
    await make_topic(broker)
    broker.share((1, 2), OFFSETS)
    asked = broker.client.send("OffsetCommit", 9, **committing(broker, {A0: 5, A1: 6}))
    await broker.advance(5_000)
    assert set(codes(broker, await asked).values()) == {Code.COORDINATOR_NOT_AVAILABLE}


@scenario(topics={"a": 9, "b": 2})
async def test_many_are_committed_in_steps_and_together(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "OFFSETS_A_STEP", 4)
    monkeypatch.setattr(offsets_of_groups, "OFFSETS_A_STEP", 4)
    await make_topic(broker)
    places = [*(("a", index) for index in range(9)), ("b", 0), ("b", 1)]
    first = broker.client.send("OffsetCommit", 9, **committing(broker, dict.fromkeys(places, 1)))
    later = {places[0]: 2, places[-1]: 2}
    second = broker.client.send("OffsetCommit", 9, **committing(broker, later))
    asked = broker.client.send("OffsetFetch", 9, **fetching(broker, None, 9))
    await broker.advance(0)
    assert codes(broker, await first) == dict.fromkeys(places, 0)
    assert codes(broker, await second) == dict.fromkeys(later, 0)
    expected = {place: (later.get(place, 1), 0) for place in places}
    assert found(broker, await asked, 9) == expected
    assert batch_sizes(broker) == [len(places), len(later)]


def batch_sizes(broker: MemoryBroker) -> list[int]:
    """How many records each batch of the group has."""
    log = broker.replica(OFFSETS, broker.parts.groups.partition_of("g")).log
    found = log.read(0, 1 << 20, upto=log.end_offset, at_least_one=True)
    data = b"" if found is None else found.file.pread(found.length, found.position)
    sizes = []
    while data:
        header = read_header(memoryview(data))
        sizes.append(header.record_count)
        data = data[header.size :]
    return sizes


@scenario("message.max.bytes=1000", topics={"a": 20})
async def test_what_does_not_fit_into_one_batch_is_not_kept_at_all(broker: MemoryBroker) -> None:
    """With the code that Apache Kafka gives: see tests/broker/test_big_commits.py."""
    await make_topic(broker)
    many = {("a", index): 1 for index in range(20)}
    assert await commit(broker, many) == dict.fromkeys(many, Code.UNKNOWN_SERVER_ERROR)
    assert batch_sizes(broker) == []
    few = dict.fromkeys(list(many)[:5], 1)
    assert await commit(broker, few) == dict.fromkeys(few, 0)
    assert batch_sizes(broker) == [5]


@scenario(topics={"a": 9})
async def test_steps_that_are_refused(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "OFFSETS_A_STEP", 4)
    monkeypatch.setattr(offsets_of_groups, "OFFSETS_A_STEP", 4)
    offsets = {("a", index): 1 for index in range(9)}
    answer = await commit(broker, offsets)
    assert answer == dict.fromkeys(offsets, Code.NOT_COORDINATOR)


@scenario("offset.metadata.max.bytes=3", topics=TOPICS)
async def test_metadata_that_is_too_long(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for version in (0, 9):
        assert await commit(broker, {A0: 5}, version) == {A0: Code.OFFSET_METADATA_TOO_LARGE}
        answer = await commit(broker, {A0: 5}, version, committed_metadata="abc")
        assert answer == {A0: Code.NONE}


@scenario(
    "offsets.retention.minutes=10",
    "offsets.retention.check.interval.ms=60000",
    topics=TOPICS,
)
async def test_offsets_expire_when_it_is_time_and_not_before(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, B0: 6})
    await broker.advance(5 * MINUTE_MS)
    await commit(broker, {B0: 7})
    await broker.advance(4 * MINUTE_MS)
    assert await fetch(broker) == {A0: (5, 0), B0: (7, 0)}
    await broker.advance(2 * MINUTE_MS)
    assert await fetch(broker) == {B0: (7, 0)}
    await broker.kill()
    assert await fetch(broker) == {B0: (7, 0)}
    await broker.advance(5 * MINUTE_MS)
    assert await fetch(broker) == {}
    listed = await broker.ask("ListGroups", 5, states_filter=[], types_filter=[])
    assert listed.groups == []


@scenario(topics=TOPICS)
async def test_offsets_go_with_their_topic(broker: MemoryBroker) -> None:
    await make_topic(broker)
    await commit(broker, {A0: 5, A1: 6, B0: 7})
    await commit(broker, {A1: 8}, group_id="h")
    answer = await broker.ask("DeleteTopics", 5, topic_names=["a"], timeout_ms=10_000)
    assert answer.responses[0].error_code == Code.NONE
    await broker.advance(0)
    assert await fetch(broker) == {B0: (7, 0)}
    assert await fetch(broker, group_id="h") == {}
    await broker.create("a", 2)
    assert await fetch(broker, [A0]) == {A0: (-1, 0)}


@scenario(topics=TOPICS)
async def test_offsets_of_version_0_are_kept_in_the_tree(broker: MemoryBroker) -> None:
    answer = await commit(broker, {A0: 5, A1: 6, ("a", 7): 1, ("c", 0): 1}, 0)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == {("a", 7): unknown, ("c", 0): unknown, A0: 0, A1: 0}
    await commit(broker, {A0: 7}, 0)
    expected = {A0: (7, 0), A1: (6, 0), B0: (-1, unknown)}
    assert await fetch(broker, [A0, A1, B0], 0) == expected
    await broker.crash()
    assert await fetch(broker, [A0, A1, B0], 0) == expected
    await make_topic(broker)
    assert await fetch(broker, [A0], 1) == {A0: (-1, 0)}
