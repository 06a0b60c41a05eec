"""AddPartitionsToTxn: of clients by partition, of brokers by transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.handlers import add_partitions_to_txn
from kavka.wire.apis.add_partitions_to_txn import API, BATCHED_SINCE
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import (
    ID,
    adding,
    asked_by_broker,
    begun,
    codes,
    described,
    find,
)

OF_BROKERS = range(BATCHED_SINCE, API.highest + 1)


async def partitions(broker: MemoryBroker, transactional_id: str = ID) -> dict[str, list[int]]:
    """What belongs to a transaction."""
    found = await described(broker, transactional_id)
    return {topic.topic: sorted(topic.partitions) for topic in found.topics}


async def ask_as_broker(broker: MemoryBroker, version: int, *transactions: dict[str, Any]) -> Any:
    return await broker.ask("AddPartitionsToTxn", version, transactions=list(transactions))


async def add_as_broker(
    broker: MemoryBroker, version: int, *transactions: dict[str, Any]
) -> dict[str, dict[tuple[str, int], int]]:
    """Code by transactional id, and topic and partition."""
    answer = await ask_as_broker(broker, version, *transactions)
    assert answer.error_code == Code.NONE
    return {
        result.transactional_id: codes(result.topic_results)
        for result in answer.results_by_transaction
    }


# -- clients ------------------------------------------------------------------------------


@scenario(topics={"t": 7, "u": 1})
async def test_many_are_looked_at_in_slices_and_not_overtaken(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn, "PARTITIONS_PER_STEP", 2)
    await find(broker)
    producer = await begun(broker)
    many = broker.client.send("AddPartitionsToTxn", 3, **adding(producer, {"t": range(7)}))
    ending = broker.client.send(
        "EndTxn",
        4,
        transactional_id=ID,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=True,
    )
    await broker.advance(0)
    found = codes(many.result().results_by_topic_v3_and_below)
    assert found == {("t", index): Code.NONE for index in range(7)}
    assert ending.result().error_code == Code.NONE
    assert (await described(broker)).transaction_state == "CompleteCommit"


# -- brokers ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OF_BROKERS)
@scenario(topics={"t": 1})
async def test_many_transactions(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    ids = [f"id {number}" for number in range(2 * add_partitions_to_txn.TRANSACTIONS_PER_STEP + 1)]
    transactions = [
        asked_by_broker(await begun(broker, transactional_id), {"t": [0]}, transactional_id)
        for transactional_id in ids
    ]
    found = await add_as_broker(broker, version, *transactions)
    assert found == {transactional_id: {("t", 0): Code.NONE} for transactional_id in ids}
    assert await add_as_broker(broker, version) == {}
