"""OffsetCommit: what is kept, and for how long. See also the differential cases, and
`tests/unit/groupcoord` for the rules."""

from __future__ import annotations

import pytest

from kavka.groupcoord import offsets as offsets_of_groups
from kavka.groupcoord.offset_records import decode
from kavka.server.handlers.common import offset_commits
from kavka.wire.apis.offset_commit import API
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support.group_requests import make_topic
from support.memory_broker import MemoryBroker, scenario
from support.offset_requests import codes, commit, committing, fetching, found

VERSIONS = range(1, API.highest + 1)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
TOPICS = {"a": 2, "b": 1}
OFFSETS = "__consumer_offsets"


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


@scenario(topics={"a": 9, "b": 2})
async def test_many_are_committed_in_steps_and_together(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_commits, "OFFSETS_PER_STEP", 4)
    monkeypatch.setattr(offsets_of_groups, "OFFSETS_PER_STEP", 4)
    await make_topic(broker)
    places = [*(("a", index) for index in range(9)), ("b", 0), ("b", 1)]
    first = broker.client.send("OffsetCommit", 9, **committing(broker, dict.fromkeys(places, 1)))
    later = {places[0]: 2, places[-1]: 2}
    second = broker.client.send("OffsetCommit", 9, **committing(broker, later))
    fetched = broker.client.send("OffsetFetch", 9, **fetching(broker, None, 9))
    await broker.advance(0)
    assert codes(broker, await first) == dict.fromkeys(places, 0)
    assert codes(broker, await second) == dict.fromkeys(later, 0)
    expected = {place: (later.get(place, 1), 0) for place in places}
    assert found(broker, await fetched, 9) == expected
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
    monkeypatch.setattr(offset_commits, "OFFSETS_PER_STEP", 4)
    monkeypatch.setattr(offsets_of_groups, "OFFSETS_PER_STEP", 4)
    offsets = {("a", index): 1 for index in range(9)}
    answer = await commit(broker, offsets)
    assert answer == dict.fromkeys(offsets, Code.NOT_COORDINATOR)
