"""Replication that is throttled (KIP-73), as kafka-reassign-partitions --throttle asks for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode as Code
from sim.cluster import ATTEMPT_S, TOPIC, Cluster, live
from sim.test_reassignment import has_replica, reassign, until_reassigned
from support import logs

BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
SET, DELETE = 0, 1
RATE = 200_000
BATCH = bytes(20_000)
BATCHES = 200
PORTION = 65_536
NOT_YET = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_LEADER_OR_FOLLOWER)


async def alter(cluster: Cluster, on: int, kind: int, name: str, **changes: str | None) -> None:
    """IncrementalAlterConfigs, at one broker; None deletes a config."""
    configs = [
        {
            "name": key.replace("_", "."),
            "config_operation": DELETE if value is None else SET,
            "value": value,
        }
        for key, value in changes.items()
    ]
    answer = await cluster.ask(
        cluster.machine(on),
        "IncrementalAlterConfigs",
        0,
        resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
        validate_only=False,
    )
    assert answer.responses[0].error_code == Code.NONE, answer


async def limit(cluster: Cluster, leader: int | None, follower: int | None) -> None:
    """Bytes a second of each broker; None takes the limit away."""
    for number in range(1, len(cluster.machines) + 1):
        await alter(
            cluster,
            number,
            BROKER_RESOURCE,
            str(number),
            leader_replication_throttled_rate=None if leader is None else str(leader),
            follower_replication_throttled_rate=None if follower is None else str(follower),
        )


async def fill(cluster: Cluster) -> None:
    leader = cluster.machine((await cluster.partition()).leader_id)
    written = 0
    while written < BATCHES:
        data = {
            "name": TOPIC,
            "partition_data": [{"index": 0, "records": logs.batch([BATCH])}],
        }
        answer = await cluster.ask(
            leader,
            "Produce",
            9,
            transactional_id=None,
            acks=-1,  # so that replica 2 has it before the throttle begins
            timeout_ms=5000,
            topic_data=[data],
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code == Code.NONE:
            written += 1
        else:  # it has yet to hear that it leads, of a topic that is new
            assert written == 0 and code in NOT_YET, Code(code)
            await asyncio.sleep(ATTEMPT_S)


async def moved(cluster: Cluster, *, by_leader: bool, by_follower: bool) -> float:
    """Add replica 3 to a partition that 1 and 2 have; how long it takes until it is in sync, in
    seconds."""
    await cluster.start()
    await cluster.create([1, 2])
    await cluster.in_sync(1, 2)
    await fill(cluster)
    await cluster.in_sync(1, 2)
    await alter(
        cluster,
        1,
        TOPIC_RESOURCE,
        TOPIC,
        leader_replication_throttled_replicas="0:1,0:2",
        follower_replication_throttled_replicas="0:3",
    )
    await limit(cluster, RATE if by_leader else None, RATE if by_follower else None)
    began_s = cluster.loop.now_s
    assert await reassign(cluster, 0, [1, 2, 3]) == Code.NONE
    await cluster.in_sync(1, 2, 3)
    return float(cluster.loop.now_s - began_s)


async def end(cluster: Cluster) -> None:
    await until_reassigned(cluster)
    await cluster.end()


SETTINGS = (
    f"replica.fetch.max.bytes={PORTION}",
    "replica.lag.time.max.ms=2000",
    "replica.fetch.wait.max.ms=500",
)


@pytest.mark.parametrize("by", ["leader", "follower", "both"])
def test_a_new_replica_is_filled_at_the_rate(by: str) -> None:
    async def main(cluster: Cluster) -> None:
        took_s = await moved(cluster, by_leader=by != "follower", by_follower=by != "leader")
        size = len(cluster.stored_of(cluster.machine(1), 0))
        assert size > BATCHES * len(BATCH)
        assert took_s == pytest.approx(size / RATE, rel=0.1)
        await end(cluster)

    live(Cluster(80, 3, *SETTINGS), main)


def test_without_a_limit_it_is_filled_at_once() -> None:
    """So the others are slow for their throttle alone."""

    async def main(cluster: Cluster) -> None:
        assert await moved(cluster, by_leader=False, by_follower=False) < 3
        await end(cluster)

    live(Cluster(81, 3, *SETTINGS), main)


def test_a_replica_in_sync_is_not_throttled() -> None:
    """The limits are far below what is written, and all replicas are named."""

    async def main(cluster: Cluster) -> None:
        await cluster.start()
        await cluster.create([1, 2, 3], min_isr=3)
        await cluster.in_sync(1, 2, 3)
        await limit(cluster, 100, 100)
        every: dict[str, Any] = dict.fromkeys(
            ("leader_replication_throttled_replicas", "follower_replication_throttled_replicas"),
            "*",
        )
        await alter(cluster, 1, TOPIC_RESOURCE, TOPIC, **every)
        until = asyncio.Event()
        producing = asyncio.ensure_future(cluster.produce(until))
        for _ in range(60):  # 12 s: longer than all windows
            await asyncio.sleep(ATTEMPT_S)
            assert sorted((await cluster.partition()).isr_nodes) == [1, 2, 3]
        until.set()
        await producing
        assert len(cluster.acknowledged) > 500, "no record has waited for a quota"
        await cluster.end()

    live(Cluster(82, 3, *SETTINGS), main)


@pytest.mark.parametrize("lifted", ["rate", "replicas"])
@pytest.mark.parametrize("by_leader", [True, False])
def test_a_throttle_that_is_lifted_ends_at_once(lifted: str, by_leader: bool) -> None:
    async def main(cluster: Cluster) -> None:
        moving = asyncio.ensure_future(
            moved(cluster, by_leader=by_leader, by_follower=not by_leader)
        )
        while not has_replica(cluster.machine(3), 0):
            await asyncio.sleep(ATTEMPT_S)
        await asyncio.sleep(5)
        assert not moving.done()
        if lifted == "rate":
            await limit(cluster, None, None)
        else:
            await alter(
                cluster,
                2,
                TOPIC_RESOURCE,
                TOPIC,
                leader_replication_throttled_replicas=None,
                follower_replication_throttled_replicas=None,
            )
        lifted_s = cluster.loop.now_s
        await moving
        assert cluster.loop.now_s - lifted_s < 3
        await end(cluster)

    live(Cluster(83, 3, *SETTINGS), main)
