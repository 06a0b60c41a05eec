"""A broker of a cluster whose session with ZooKeeper expires serves on, and registers again when it
can: in the same process, with a newer epoch, and with what changed meanwhile."""

from __future__ import annotations

import asyncio

from kavka.server.broker import Broker
from sim.cluster import ATTEMPT_S, SESSION_S, TOPIC, Cluster, live
from sim.ensemble import ZOOKEEPER
from sim.machine import Machine

GONE_S = SESSION_S + 5


def running(machine: Machine) -> Broker:
    assert machine.instance is not None and machine.instance.broker is not None
    return machine.instance.broker


async def set_max_bytes(cluster: Cluster, machine: Machine, value: str) -> None:
    configs = [{"name": "max.message.bytes", "config_operation": 0, "value": value}]
    resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
    answer = await cluster.ask(
        machine, "IncrementalAlterConfigs", 1, resources=[resource], validate_only=False
    )
    assert not answer.responses[0].error_code


async def max_bytes(cluster: Cluster, machine: Machine) -> str:
    resource = {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}
    answer = await cluster.ask(machine, "DescribeConfigs", 4, resources=[resource])
    (value,) = (
        config.value for config in answer.results[0].configs if config.name == "max.message.bytes"
    )
    return str(value)


async def is_away(cluster: Cluster) -> None:
    """Broker by broker, the controller among them, is cut off from ZooKeeper alone."""
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    for number, machine in enumerate(cluster.machines, 1):
        broker, other = running(machine), cluster.machines[number % 3]
        epoch = broker.epoch
        cluster.network.cut(machine.name, ZOOKEEPER)
        await asyncio.sleep(GONE_S)
        before = len(cluster.acknowledged)
        await set_max_bytes(cluster, other, str(500_000 + number))
        while len(cluster.acknowledged) < before + 20:
            await asyncio.sleep(ATTEMPT_S)
        assert broker.epoch == epoch
        cluster.network.heal()
        while broker.epoch == epoch or await max_bytes(cluster, machine) != f"{500_000 + number}":
            await asyncio.sleep(ATTEMPT_S)
        await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    assert [machine.lives for machine in cluster.machines] == [1, 1, 1]
    values = await cluster.values()
    assert set(cluster.acknowledged) <= set(values), "acknowledged and lost"
    await cluster.end()


def test_it_serves_on_and_registers_again() -> None:
    live(Cluster(5, 3), is_away)
