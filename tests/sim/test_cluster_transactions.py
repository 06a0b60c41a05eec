"""Transactions whose coordinator and partitions are on several brokers, which die in turn: all of a
transaction is there, or nothing, and no partition stays open."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kavka.wire.errors import ErrorCode as Code
from sim.client import Lost
from sim.cluster import ATTEMPT_S, SESSION_S, TOPIC, Cluster, live
from sim.history import ABORTED, COMMITTED, History
from sim.transactions import TransactionalProducer
from support.memory_broker import fetching
from support.memory_transactions import values_of

PARTITIONS = 3
SETTINGS = (
    "transaction.state.log.num.partitions=3",
    "transaction.state.log.min.isr=2",
    "transaction.max.timeout.ms=60000",
)


async def committed(cluster: Cluster, index: int) -> list[bytes]:
    """The values that a consumer of committed records reads to the end of a partition, once no
    transaction is open there."""
    found: list[bytes] = []
    offset = 0
    while True:
        leader = cluster.machine((await cluster.partition(index)).leader_id)
        request = fetching({(TOPIC, index): offset}, isolation_level=1)
        try:
            answer = await cluster.ask(leader, "Fetch", 12, **request)
        except Lost:
            continue
        part = answer.responses[0].partitions[0]
        assert part.error_code == Code.NONE, Code(part.error_code)
        end = last_offset(part)
        found += values_of(part)
        if end is not None:
            offset = end + 1
        elif part.last_stable_offset == part.high_watermark == offset:
            return found
        else:
            await asyncio.sleep(ATTEMPT_S)


def last_offset(part: Any) -> int | None:
    """Of the last batch in an answer."""
    from kafka.record import MemoryRecords

    records, last = MemoryRecords(bytes(part.records or b"")), None
    while (batch := records.next_batch()) is not None:
        last = batch.base_offset + batch.last_offset_delta
    return last


async def brokers_die(cluster: Cluster, *, newer: bool) -> None:
    await cluster.start()
    await cluster.create([1, 2, 3], min_isr=2, partitions=PARTITIONS)
    await cluster.in_sync(1, 2, 3)
    history = History(lambda: cluster.loop.now_s)
    places = [(TOPIC, index) for index in range(PARTITIONS)]
    producers = []
    for name in ("a", "b", "c"):
        producers.append(
            TransactionalProducer(
                cluster.client(name),
                history,
                random.Random(cluster.chance.random()),
                places,
                transactions=25,
                pause_s=0.1,
                timeout_ms=30_000,
                newer=newer,
            )
        )
    producing = asyncio.gather(*(producer.run() for producer in producers))
    for machine in cluster.machines:
        await asyncio.sleep(3 * cluster.chance.random())
        machine.kill()
        await asyncio.sleep(SESSION_S + 3 * cluster.chance.random())
        machine.launch()
        await machine.started()
        await cluster.in_sync(1, 2, 3)
    await producing
    assert not history.violations
    values = [value for index in range(PARTITIONS) for value in await committed(cluster, index)]
    assert len(values) == len(set(values)), "once each"
    outcomes = {COMMITTED: 0, ABORTED: 0}
    for transaction in history.transactions:
        there = set(transaction.values) & set(values)
        if transaction.outcome == COMMITTED:
            assert there == set(transaction.values), (
                f"{transaction.producer} {transaction.number}: committed and lost"
            )
        elif transaction.outcome == ABORTED:
            assert not there, f"{transaction.producer} {transaction.number}: aborted"
        else:
            assert there in (set(), set(transaction.values)), (
                f"{transaction.producer} {transaction.number}: in part"
            )
        outcomes[transaction.outcome] = outcomes.get(transaction.outcome, 0) + 1
    assert outcomes[COMMITTED] > 20
    assert outcomes[ABORTED] > 5
    await cluster.end()


@pytest.mark.parametrize("newer", [False, True])
def test_transactions_outlive_each_broker(newer: bool) -> None:
    live(Cluster(7, 3, *SETTINGS), lambda cluster: brokers_die(cluster, newer=newer))
