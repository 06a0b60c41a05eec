"""What is told of consumer groups and of loading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.groupcoord import offset_records
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, Record, Reply, Ticket
from kavka.server.metrics import view as view_module
from support import offset_requests
from support.group_requests import beat, join, make_topic, sync
from support.memory_broker import READS, MemoryBroker, scenario
from support.metrics import ON, look

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
        record = Record(key, offset_records.encode(COMMITTED))

        def ask(_: object, ticket: Ticket, __: int, record: Record = record) -> Decision:
            return Decision([record], [Reply(ticket, None)])

        broker.parts.groups.call("g", ask)
    assert (await look(broker))[f"{MANAGER}numoffsets"] == 3


@scenario(ON)
async def test_many_groups_are_counted_in_slices(broker: MemoryBroker) -> None:
    await make_topic(broker)
    many = 2 * view_module.GROUPS_PER_SLICE + 1
    fill(broker, [("classic", "Empty")] * many)
    found = await look(broker)
    assert found[f"{MANAGER}numgroupsempty"] == many


@scenario(ON)
async def test_partitions_and_how_long_they_took(broker: MemoryBroker) -> None:
    await make_topic(broker)

    def ask(shard: GroupShard, ticket: Ticket, now_ms: int) -> Decision:
        return Decision([Record(b"\x7f\xff", b"")], [Reply(ticket, None)])

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
    told = {name: found[f"{COORDINATOR}{name}"] for name in COUNTED}
    return {name: count for name, count in told.items() if count}


async def commit(broker: MemoryBroker, group: str, *partitions: int) -> None:
    places = [("t", one) for one in partitions]
    told = await offset_requests.commit(broker, dict.fromkeys(places, 5), group_id=group)
    assert told == dict.fromkeys(places, 0)


@scenario(ON, "offsets.retention.minutes=2", topics={"t": 3})
async def test_what_happened_to_offsets(broker: MemoryBroker) -> None:
    await make_topic(broker)
    assert await counts(broker) == {}
    await commit(broker, "g", 0, 1, 2)
    await commit(broker, "h", 0)
    assert await counts(broker) == {"offset_commit_count": 4}
    gone = [{"name": "t", "partitions": [{"partition_index": one} for one in (1, 2)]}]
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
    told = []
    for member in ("a", "b"):
        await broker.ask(
            "ConsumerGroupHeartbeat",
            1,
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=["t"],
            **values,
        )
        told.append(await counts(broker))
    assert told == [{"consumer_group_rebalance_count": number} for number in (1, 2)]
