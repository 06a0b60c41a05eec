"""Metrics of consumer groups and of loading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.groupcoord import offset_records
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, JournalRecord, Reply, ReplyFuture
from kavka.server.monitoring.metrics import lag
from kavka.server.monitoring.metrics import view as view_module
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.wire.steps import run_at_once
from support import offset_requests
from support.group_requests import beat, join, make_topic, sync
from support.memory_broker import READS, MemoryBroker, scenario
from support.metrics import ON, look, records

COORDINATOR = "kafka_server_group_coordinator_metrics_"
COMMITTED = offset_records.CommittedOffset(
    1, -1, "", 0, offset_records.NO_TIME, offset_records.NO_TOPIC_ID
)
MANAGER = "kafka_coordinator_group_groupmetadatamanager_"


class Some:
    """A group of some kind, in some state."""

    def __init__(self, kind: str, state: str) -> None:
        self.kind = kind
        self._state = state

    def state(self, now_ms: int) -> str:
        return self._state


def fill(broker: MemoryBroker, groups: Sequence[tuple[str, str]]) -> None:
    """Have these kinds and states, spread over two partitions."""
    first, second, *_ = broker.parts.groups.shards()
    for number, (kind, state) in enumerate(groups):
        some: Any = Some(kind, state)
        (first, second)[number % 2].state.groups[f"group {number}"] = some


@scenario(ON)
async def test_groups_by_kind_and_state(broker: MemoryBroker) -> None:
    found = await look(broker)
    assert found[f"{MANAGER}numgroups"] == 0
    await make_topic(broker)
    fill(
        broker,
        [
            *[("classic", "Stable")] * 3,
            *[("classic", "Empty")] * 2,
            ("classic", "PreparingRebalance"),
            *[("consumer", "Stable")] * 2,
            ("consumer", "Reconciling"),
        ],
    )
    found = await look(broker)
    assert found[f"{MANAGER}numgroups"] == 6
    assert found[f"{MANAGER}numoffsets"] == 0
    assert found[f"{MANAGER}numgroupsstable"] == 3
    assert found[f"{MANAGER}numgroupsempty"] == 2
    assert found[f"{MANAGER}numgroupspreparingrebalance"] == 1
    assert found[f"{MANAGER}numgroupscompletingrebalance"] == 0
    assert found[f"{MANAGER}numgroupsdead"] == 0
    assert found.all(f"{COORDINATOR}group_count") == {("classic",): 6, ("consumer",): 3}
    assert found.all(f"{COORDINATOR}consumer_group_count") == {
        ("Empty",): 0,
        ("Assigning",): 0,
        ("Reconciling",): 1,
        ("Stable",): 2,
        ("Dead",): 0,
    }


@scenario(ON)
async def test_offsets(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0), ("t", 0)):
        key = offset_records.partition_key(offset_records.topic_key("g", topic), partition)
        record = JournalRecord(key, offset_records.encode(COMMITTED))

        def ask(
            _: object, future: ReplyFuture, __: int, record: JournalRecord = record
        ) -> Decision:
            return Decision([record], [Reply(future, None)])

        broker.parts.groups.call("g", ask)
    assert (await look(broker))[f"{MANAGER}numoffsets"] == 3


@scenario(ON)
async def test_many_groups_are_counted_in_slices(broker: MemoryBroker) -> None:
    await make_topic(broker)
    many = 2 * view_module.GROUPS_PER_STEP + 1
    fill(broker, [("classic", "Empty")] * many)
    found = await look(broker)
    assert found[f"{MANAGER}numgroupsempty"] == many


@scenario(ON)
async def test_partitions_and_how_long_they_took(broker: MemoryBroker) -> None:
    await make_topic(broker)

    def ask(shard: GroupShard, future: ReplyFuture, now_ms: int) -> Decision:
        return Decision([JournalRecord(b"\x7f\xff", b"")], [Reply(future, None)])

    broker.parts.groups.call("g", ask)
    await broker.kill(holding=READS)
    found = await look(broker)
    progress = f"{COORDINATOR}num_partitions"
    assert found.all(progress) == {("loading",): 1, ("active",): 49, ("failed",): 0}
    await broker.advance(700)
    broker.jobs.release()
    await broker.advance(0)
    found = await look(broker)
    assert found.all(progress) == {("loading",): 0, ("active",): 50, ("failed",): 0}
    assert found[f"{COORDINATOR}partition_load_time_max"] == 700
    assert found[f"{COORDINATOR}partition_load_time_avg"] == 700 / 50
    await broker.advance(30_001)
    found = await look(broker)
    assert found[f"{COORDINATOR}partition_load_time_max"] == 0


COUNTED = (
    "group_completed_rebalance_count",
    "consumer_group_rebalance_count",
    "offset_commit_count",
    "offset_deletion_count",
    "offset_expiration_count",
)


async def counts(broker: MemoryBroker) -> dict[str, float]:
    """Those that are not 0."""
    found = await look(broker)
    notified = {name: found[f"{COORDINATOR}{name}"] for name in COUNTED}
    return {name: count for name, count in notified.items() if count}


async def commit(broker: MemoryBroker, group: str, *partitions: int) -> None:
    places = [("t", partition) for partition in partitions]
    notified = await offset_requests.commit(broker, dict.fromkeys(places, 5), group_id=group)
    assert notified == dict.fromkeys(places, 0)


@scenario(ON, "offsets.retention.minutes=2", topics={"t": 3})
async def test_what_happened_to_offsets(broker: MemoryBroker) -> None:
    await make_topic(broker)
    assert await counts(broker) == {}
    await commit(broker, "g", 0, 1, 2)
    await commit(broker, "h", 0)
    assert await counts(broker) == {"offset_commit_count": 4}
    gone = [{"name": "t", "partitions": [{"partition_index": partition} for partition in (1, 2)]}]
    await broker.ask("OffsetDelete", 0, group_id="g", topics=gone)
    assert await counts(broker) == {"offset_commit_count": 4, "offset_deletion_count": 2}
    await broker.advance(21 * 60_000)
    assert await counts(broker) == {
        "offset_commit_count": 4,
        "offset_deletion_count": 2,
        "offset_expiration_count": 2,
    }


@scenario(ON, topics={"t": 3})
async def test_rebalances(broker: MemoryBroker) -> None:
    joined = await join(broker)
    assert await counts(broker) == {}
    await sync(broker, joined, {joined.member_id: b"all"})
    assert await counts(broker) == {"group_completed_rebalance_count": 1}
    await beat(broker, joined)
    assert await counts(broker) == {"group_completed_rebalance_count": 1}


@scenario(ON, topics={"t": 3})
async def test_epochs(broker: MemoryBroker) -> None:
    await make_topic(broker)
    values = {"group_id": "n", "rebalance_timeout_ms": 60_000, "topic_partitions": []}
    notified = []
    for member in ("a", "b"):
        await broker.ask(
            "ConsumerGroupHeartbeat",
            1,
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=["t"],
            **values,
        )
        notified.append(await counts(broker))
    assert notified == [{"consumer_group_rebalance_count": number} for number in (1, 2)]


# -- lag --------------------------------------------------------------------------------------

LAG = "kafka_consumergroup_lag"
LEFT_OUT = "kavka_consumergroup_lag_left_out"


@scenario(ON, topics={"a": 3})
async def test_lag_is_what_is_written_and_not_committed(broker: MemoryBroker) -> None:
    await make_topic(broker)
    found = await look(broker)
    assert found.all(LAG) == {} and found[LEFT_OUT] == 0
    await broker.produce(records(10), topic="a")
    await offset_requests.commit(broker, {("a", 0): 4, ("a", 1): 0})
    found = await look(broker)
    assert found.all(LAG) == {("g", "0", "a"): 10 - 4, ("g", "1", "a"): 0}
    await broker.produce(records(5), topic="a")
    assert (await look(broker)).all(LAG)["g", "0", "a"] == 15 - 4
    broker.share((1, 2), "a")
    await broker.produce(records(5), topic="a", acks=1)
    assert (await look(broker)).all(LAG)["g", "0", "a"] == 15 - 4, "to the high watermark"


@scenario(ON, topics={"a": 1, "b": 1})
async def test_partitions_without_lag_have_no_series(broker: MemoryBroker) -> None:
    """A partition that is led elsewhere, or a topic that is not the one that was read."""
    await make_topic(broker)
    await offset_requests.commit(broker, {("a", 0): 4, ("b", 0): 4})
    topics = [("a", 0)]
    broker.parts.groups.metadata_changed = lambda update: None  # type: ignore[method-assign]
    requests = broker.instance._requests
    assert requests is not None
    requests.on_metadata.clear()  # so that the offsets stay
    await broker.ask("DeleteTopics", 5, topic_names=[topics[0][0]], timeout_ms=5000)
    found = await look(broker)
    assert found.all(LAG) == {("g", "0", "b"): -4}, "as the tool shows it, too"
    await broker.create("a", 1)
    assert ("g", "0", "a") not in (await look(broker)).all(LAG)
    partition = broker.replica("b").partition
    epoch, version = partition.leader_epoch + 1, partition.partition_epoch + 1
    partition.follow(LeaderAndIsrState(1, 2, epoch, (2,), version, (1, 2)))
    assert (await look(broker)).all(LAG) == {}


@scenario(ON, topics={"a": 5, "b": 5})
async def test_of_very_many_some_are_left_out_and_counted(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "OFFSETS_PER_STEP", 2)
    await make_topic(broker)
    places = [(topic, index) for topic in ("a", "b") for index in range(5)]
    for number in range(7):
        await offset_requests.commit(broker, dict.fromkeys(places, 1), group_id=f"g{number}")
    for room, left_out in ((70, 0), (69, 1), (33, 37), (10, 60), (1, 69)):
        monkeypatch.setattr(lag, "LAG_SERIES_MAX", room)
        found = await look(broker)
        assert len(found.all(LAG)) == room
        assert found[LEFT_OUT] == left_out


@scenario(ON, topics={"a": 9})
async def test_lag_is_found_out_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed and deleted meanwhile is no harm."""
    monkeypatch.setattr(lag, "OFFSETS_PER_STEP", 2)
    await make_topic(broker)
    await offset_requests.commit(broker, {("a", index): 1 for index in range(8)})
    work = lag.lags(broker.parts)
    next(work)
    next(work)
    (shard,) = [shard for shard in broker.parts.groups.shards() if shard.offsets.store.count]
    await offset_requests.commit(broker, {("a", 8): 1})
    for index in range(8):
        shard.offsets.store.remove(shard.offsets.store.of("g", "a"), index)
    found = run_at_once(work)
    assert len(found.samples) == 8
