"""Consumers read from the replica in their rack (KIP-392), while brokers die: every record once and
in order, and without delay."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from kavka.server.config.cluster_rows import RACK_SELECTOR
from kavka.wire.errors import ErrorCode as Code
from sim.cluster import ATTEMPT_S, SESSION_S, TOPIC, Cluster, live
from sim.history import ABORTED, COMMITTED, History
from sim.test_cluster_transactions import committed, last_offset
from sim.transactions import TransactionalProducer
from support.memory_broker import fetching
from support.memory_transactions import values_of

SETTINGS = (
    f"replica.selector.class={RACK_SELECTOR}",
    "transaction.state.log.num.partitions=3",
    "transaction.state.log.min.isr=2",
)
REFUSED = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.KAFKA_STORAGE_ERROR,
)
"""What makes a consumer ask for metadata again."""


class Racked(Cluster):
    """Broker 1 is in rack1, and so on."""

    def __init__(self, seed: int, brokers: int = 3) -> None:
        super().__init__(seed, brokers, *SETTINGS)
        for number, machine in enumerate(self.machines, 1):
            machine.settings.append(f"broker.rack=rack{number}")


class NearestReader:
    """A consumer of one partition from the beginning, as Apache Kafka's: it asks the leader, goes
    where that sends it, and comes back when something fails there."""

    def __init__(self, cluster: Cluster, rack: str, *, isolation: int = 0) -> None:
        self._cluster = cluster
        self._rack = rack
        self._isolation = isolation
        self._preferred = -1
        self.position = 0
        self.values: list[bytes] = []
        self.at_s: list[float] = []
        """When each value came."""
        self.served_by: Counter[int] = Counter()
        """Records by broker."""

    async def run(self) -> None:
        while True:
            found = await self._cluster.partition()
            request = fetching(
                {(TOPIC, 0): self.position},
                current_leader_epoch=found.leader_epoch,
                isolation_level=self._isolation,
                max_wait_ms=500,
            )
            on = self._preferred if self._preferred >= 0 else found.leader_id
            try:
                answer = await self._cluster.ask(
                    self._cluster.machine(on), "Fetch", 12, **request | {"rack_id": self._rack}
                )
            except OSError:
                await self._go_back()
                continue
            await self._take(on, answer.responses[0].partitions[0])

    async def _take(self, broker_id: int, part: Any) -> None:
        code = Code(part.error_code)
        if code is not Code.NONE:
            assert code in REFUSED or (code is Code.OFFSET_OUT_OF_RANGE and self._preferred >= 0)
            await self._go_back()
        elif part.preferred_read_replica >= 0:
            assert not part.records
            self._preferred = part.preferred_read_replica
        else:
            end = last_offset(part)
            if end is None:
                return
            assert end < (part.last_stable_offset if self._isolation else part.high_watermark)
            found = values_of(part)
            self.served_by[broker_id] += len(found)
            self.values += found
            self.at_s += [self._cluster.loop.now_s] * len(found)
            self.position = end + 1

    async def _go_back(self) -> None:
        self._preferred = -1
        await asyncio.sleep(ATTEMPT_S)

    async def served(self, by: int) -> None:
        """Wait until this broker has served ten records more. TimeoutError."""
        before = self.served_by[by]
        async with asyncio.timeout(10):
            while self.served_by[by] < before + 10:
                await asyncio.sleep(ATTEMPT_S)

    async def until(self, position: int) -> None:
        while self.position < position:
            await asyncio.sleep(ATTEMPT_S)


async def end_of_log(cluster: Cluster) -> int:
    leader = cluster.machine((await cluster.partition()).leader_id)
    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    topics = [{"name": TOPIC, "partitions": partitions}]
    answer = await cluster.ask(
        leader, "ListOffsets", 6, replica_id=-1, isolation_level=0, topics=topics
    )
    return int(answer.topics[0].partitions[0].offset)


async def a_follower_dies(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    until = asyncio.Event()
    producing = asyncio.ensure_future(cluster.produce(until))
    reader = NearestReader(cluster, "rack2")
    reading = asyncio.ensure_future(reader.run())
    await reader.served(2)
    assert set(reader.served_by) <= {1, 2}
    cluster.machine(2).kill()
    await reader.served(1)
    cluster.machine(2).launch()
    await cluster.machine(2).started()
    await cluster.in_sync(1, 2, 3)
    await reader.served(2)
    cluster.machine(1).kill()
    await asyncio.sleep(SESSION_S)
    cluster.machine(1).launch()
    await cluster.machine(1).started()
    await cluster.in_sync(1, 2, 3)
    until.set()
    await producing
    await reader.until(await end_of_log(cluster))
    reading.cancel()
    assert reader.values == await cluster.values(), "each once, and in order"
    assert set(cluster.acknowledged) <= set(reader.values)
    await cluster.end()


@pytest.mark.parametrize("seed", range(2))
def test_every_record_is_read_once_whoever_dies(seed: int) -> None:
    cluster = live(Racked(90 + seed), a_follower_dies)
    assert len(cluster.acknowledged) > 50


async def one_at_a_time(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3])
    await cluster.in_sync(1, 2, 3)
    reader = NearestReader(cluster, "rack3")
    reading = asyncio.ensure_future(reader.run())
    waits_s = []
    for _ in range(20):
        await asyncio.sleep(0.3 + cluster.chance.random())
        until = asyncio.Event()
        producing = asyncio.ensure_future(cluster.produce(until))
        await asyncio.sleep(0)  # it writes one record
        until.set()
        await producing
        written_s = cluster.loop.now_s
        while len(reader.values) < len(cluster.acknowledged):
            await asyncio.sleep(0.01)
        waits_s.append(reader.at_s[-1] - written_s)
    reading.cancel()
    assert len(cluster.acknowledged) == 20
    assert reader.served_by[3] > 10
    assert sorted(waits_s)[15] < 0.1, waits_s  # replica.fetch.wait.max.ms is half a second
    await cluster.end()


def test_what_is_committed_reaches_readers_of_followers_at_once() -> None:
    live(Racked(95), one_at_a_time)


async def transactions_end(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2)
    await cluster.in_sync(1, 2, 3)
    history = History(lambda: cluster.loop.now_s)
    producer = TransactionalProducer(
        cluster.client("writer"),
        history,
        random.Random(cluster.chance.random()),
        [(TOPIC, 0)],
        transactions=40,
        pause_s=0.1,
        timeout_ms=30_000,
        newer=True,
    )
    reader = NearestReader(cluster, "rack2", isolation=1)
    reading = asyncio.ensure_future(reader.run())
    await producer.run()
    outcomes = Counter(transaction.outcome for transaction in history.transactions)
    assert outcomes[COMMITTED] > 10 and outcomes[ABORTED] > 3
    expected = await committed(cluster, 0)
    await reader.until(await end_of_log(cluster))
    reading.cancel()
    assert reader.served_by[2] > 10
    written = [
        transaction.values
        for transaction in history.transactions
        if transaction.outcome == COMMITTED
    ]
    assert set(reader.values) >= {value for values in written for value in values}
    assert reader.values == expected, "as from the leader"
    await cluster.end()


def test_followers_serve_committed_transactions_only() -> None:
    live(Racked(96), transactions_end)
