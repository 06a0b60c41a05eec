"""Two brokers on a real ZooKeeper, with a stock client: the leader dies, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import finish
from support.oracle39 import ZooKeeper
from support.real_cluster import ClusterBroker
from support.replicated_topic import DEADLINE_S, create, in_thread, read, write

SESSION = "zookeeper.session.timeout.ms=8000"
"""Short, as the leader's is waited for; longer than a busy machine pauses."""


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[str]:
    service = ZooKeeper(tmp_path / "zookeeper")
    try:
        service.start()
        yield f"127.0.0.1:{service.port}"
    finally:
        finish(service)


def test_the_leader_dies_and_comes_back(tmp_path: Path, zookeeper: str) -> None:
    asyncio.run(leader_dies(tmp_path, zookeeper))


async def leader_dies(tmp_path: Path, zookeeper: str) -> None:
    brokers = {
        number: ClusterBroker(number, tmp_path / f"broker{number}", zookeeper, SESSION)
        for number in (1, 2)
    }
    try:
        for broker in brokers.values():
            await broker.start()
        addresses = ",".join(broker.address for broker in brokers.values())
        await in_thread(create, addresses)
        values = [b"%d" % number for number in range(300)]
        await in_thread(write, addresses, values[:100])
        leader = led_by(brokers)
        await brokers[leader].kill()
        other = brokers[3 - leader].address
        await in_thread(write, other, values[100:200])
        assert await in_thread(read, other) == values[:200]
        await brokers[leader].start()
        await until_in_sync(brokers)
        await in_thread(write, other, values[200:])
        assert await in_thread(read, other) == values
        for broker in brokers.values():
            await broker.stop()
    finally:
        for broker in brokers.values():
            if broker.is_up:
                await broker.kill()
    logs = [stored(tmp_path / f"broker{broker_id}" / "t-0") for broker_id in brokers]
    assert logs[0] == logs[1], "the replicas have the same bytes"


def stored(directory: Path) -> bytes:
    """All batches of a replica."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def led_by(brokers: dict[int, ClusterBroker]) -> int:
    (leader,) = [broker_id for broker_id, broker in brokers.items() if is_leader(broker)]
    return leader


def is_leader(broker: ClusterBroker) -> bool:
    replica = broker.broker.replicas.find("t", 0)
    return replica is not None and replica.partition.is_leader


async def until_in_sync(brokers: dict[int, ClusterBroker]) -> None:
    """Wait until both replicas are in sync."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            replica = brokers[led_by(brokers)].broker.replicas.find("t", 0)
            if replica is not None and len(replica.partition.isr) == 2:
                return
            await asyncio.sleep(0.05)
