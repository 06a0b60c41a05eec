"""Elections that nobody asks for: of preferred replicas, and where records are lost."""

from __future__ import annotations

import asyncio

import pytest

from sim.cluster import ATTEMPT_S, SESSION_S, TOPIC, Cluster, live

TOPIC_RESOURCE = 2
SET = 0


async def leaders(cluster: Cluster) -> list[int]:
    (topic,) = (await cluster.metadata()).topics
    return [
        partition.leader_id
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]


async def until_led_by(cluster: Cluster, *expected: int) -> None:
    while await leaders(cluster) != list(expected):
        await asyncio.sleep(ATTEMPT_S)


async def leaderships_return(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], partitions=3)
    await until_led_by(cluster, 1, 2, 3)
    for number in (1, 2, 3):
        machine = cluster.machine(number)
        machine.kill()
        while number in await leaders(cluster):
            await asyncio.sleep(ATTEMPT_S)
        machine.launch()
        await machine.started()
        await until_led_by(cluster, 1, 2, 3)
    for machine in cluster.machines:
        await machine.stop()


def test_preferred_replicas_lead_again() -> None:
    live(Cluster(41, 3, "leader.imbalance.check.interval.seconds=3"), leaderships_return)


async def leaderships_stay(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2], partitions=2)
    await until_led_by(cluster, 1, 2)
    cluster.machine(1).kill()
    await until_led_by(cluster, 2, 2)
    cluster.machine(1).launch()
    await cluster.machine(1).started()
    await cluster.in_sync(1, 2)
    await asyncio.sleep(1000)
    assert await leaders(cluster) == [2, 2]
    for machine in cluster.machines:
        await machine.stop()


def test_they_do_not_where_that_is_switched_off() -> None:
    live(Cluster(42, 2, "auto.leader.rebalance.enable=false"), leaderships_stay)


async def allow(cluster: Cluster, broker_id: int) -> None:
    """Set the topic's config."""
    config = {
        "name": "unclean.leader.election.enable",
        "config_operation": SET,
        "value": "true",
    }
    resource = {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": TOPIC,
        "configs": [config],
    }
    answer = await cluster.ask(
        cluster.machine(broker_id),
        "IncrementalAlterConfigs",
        1,
        resources=[resource],
        validate_only=False,
    )
    assert answer.responses[0].error_code == 0


async def out_of_sync(cluster: Cluster) -> None:
    """Broker 2 alone is left, and lacks records."""
    await cluster.start()
    await cluster.create([1, 2])
    await cluster.in_sync(1, 2)
    cluster.machine(2).kill()
    await cluster.in_sync(1)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    while len(cluster.acknowledged) < 10:
        await asyncio.sleep(ATTEMPT_S)
    until.set()
    await producing
    cluster.machine(1).kill()
    cluster.machine(2).launch()
    await cluster.machine(2).started()


async def records_are_lost(cluster: Cluster, *, by_default: bool) -> None:
    await out_of_sync(cluster)
    if not by_default:
        await asyncio.sleep(2 * SESSION_S)
        assert await leaders(cluster) == [-1], "rather no leader than a loss"
        await allow(cluster, 2)
    await until_led_by(cluster, 2)
    assert await cluster.values() == []
    before = len(cluster.acknowledged)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    cluster.machine(1).launch()
    await cluster.machine(1).started()
    await cluster.in_sync(1, 2)
    until.set()
    await producing
    kept = cluster.acknowledged[before:]
    assert set(kept) <= set(await cluster.values())
    await cluster.end()


@pytest.mark.parametrize("by_default", [False, True])
def test_where_it_is_allowed_a_replica_leads_that_lacks_records(by_default: bool) -> None:
    settings = ("unclean.leader.election.enable=true",) if by_default else ()
    live(
        Cluster(43, 2, *settings),
        lambda cluster: records_are_lost(cluster, by_default=by_default),
    )
