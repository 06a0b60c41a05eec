"""AddPartitionsToTxn: of clients by partition, of brokers by transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import add_partitions_to_txn
from kavka.wire.apis.add_partitions_to_txn import API, BATCHED_SINCE
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import (
    ID,
    Producer,
    add,
    adding,
    asked_by_broker,
    begun,
    codes,
    described,
    end,
    find,
)

OF_CLIENTS = range(API.lowest, BATCHED_SINCE)
OF_BROKERS = range(BATCHED_SINCE, API.highest + 1)


async def partitions(broker: MemoryBroker, transactional_id: str = ID) -> dict[str, list[int]]:
    """What belongs to a transaction."""
    found = await described(broker, transactional_id)
    return {one.topic: sorted(one.partitions) for one in found.topics}


async def ask_as_broker(broker: MemoryBroker, version: int, *asked: dict[str, Any]) -> Any:
    return await broker.ask("AddPartitionsToTxn", version, transactions=list(asked))


async def add_as_broker(
    broker: MemoryBroker, version: int, *asked: dict[str, Any]
) -> dict[str, dict[tuple[str, int], int]]:
    """Code by transactional id, and topic and partition."""
    answer = await ask_as_broker(broker, version, *asked)
    assert answer.error_code == Code.NONE
    return {one.transactional_id: codes(one.topic_results) for one in answer.results_by_transaction}


# -- clients ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OF_CLIENTS)
@scenario(topics={"t": 3, "u": 1})
async def test_partitions_are_added(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    producer = await begun(broker)
    for _ in range(2):
        found = await add(broker, producer, {"t": [2, 0], "u": [0]}, version=version)
        assert found == {("t", 2): Code.NONE, ("t", 0): Code.NONE, ("u", 0): Code.NONE}
    found = await add(broker, producer, {"t": [1, 1], "u": [0]}, version=version)
    assert found == {("t", 1): Code.NONE, ("u", 0): Code.NONE}
    state = await described(broker)
    assert state.transaction_state == "Ongoing"
    assert await partitions(broker) == {"t": [0, 1, 2], "u": [0]}


@pytest.mark.parametrize("version", OF_CLIENTS)
@scenario(topics={"t": 1, "u": 1, "secret": 1})
async def test_all_are_added_or_none(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    producer = await begun(broker)
    broker.parts.authorizer = Denied((Operation.WRITE, "secret"))
    asked = {"t": [0, 1], "none": [0], "secret": [0, 9], "u": [0], "__consumer_offsets": [0]}
    assert await add(broker, producer, asked, version=version) == {
        ("t", 0): Code.OPERATION_NOT_ATTEMPTED,
        ("t", 1): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("secret", 0): Code.TOPIC_AUTHORIZATION_FAILED,
        ("secret", 9): Code.TOPIC_AUTHORIZATION_FAILED,
        ("u", 0): Code.OPERATION_NOT_ATTEMPTED,
        ("__consumer_offsets", 0): Code.TOPIC_AUTHORIZATION_FAILED,
    }
    assert (await described(broker)).transaction_state == "Empty"


@pytest.mark.parametrize("version", OF_CLIENTS)
@scenario(topics={"t": 1})
async def test_what_is_refused(broker: MemoryBroker, version: int) -> None:
    async def code(producer: Producer, transactional_id: str = ID) -> int:
        found = await add(broker, producer, {"t": [0]}, transactional_id, version=version)
        return found["t", 0]

    assert await code(Producer(0, 0)) == Code.NOT_COORDINATOR
    await find(broker)
    assert await code(Producer(0, 0)) == Code.INVALID_PRODUCER_ID_MAPPING
    assert await code(Producer(0, 0), "") == Code.INVALID_REQUEST
    producer = await begun(broker)
    assert await code(Producer(producer.id + 1, 0)) == Code.INVALID_PRODUCER_ID_MAPPING
    fenced = Code.PRODUCER_FENCED if version >= 2 else Code.INVALID_PRODUCER_EPOCH
    assert await code(Producer(producer.id, 1)) == fenced
    broker.parts.authorizer = Denied((Operation.WRITE, ID))
    assert await code(producer) == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", OF_CLIENTS)
@scenario(topics={"t": 2})
async def test_not_while_the_transaction_before_is_being_completed(
    broker: MemoryBroker, version: int
) -> None:
    await find(broker)
    producer = await begun(broker)
    await add(broker, producer, {"t": [0]})
    broker.share((1, 2), "t", 0)  # the marker can't be safe
    assert (await end(broker, producer)).error_code == Code.NONE
    found = await add(broker, producer, {"t": [1]}, version=version)
    assert found == {("t", 1): Code.CONCURRENT_TRANSACTIONS}
    broker.share((1,), "t", 0)
    await broker.advance(0)
    found = await add(broker, producer, {"t": [1]}, version=version)
    assert found == {("t", 1): Code.NONE}


@pytest.mark.parametrize("version", OF_CLIENTS)
@scenario(topics={"t": 1})
async def test_the_answer_waits_until_it_is_certain(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    producer = await begun(broker)
    transactions = broker.parts.transactions
    broker.share((1, 2), transactions.topic, transactions.partition_of(ID))
    asked = broker.client.send("AddPartitionsToTxn", version, **adding(producer, {"t": [0]}))
    await broker.advance(1000)
    assert not asked.done()
    broker.share((1,), transactions.topic, transactions.partition_of(ID))
    await broker.advance(0)
    assert codes(asked.result().results_by_topic_v3_and_below) == {("t", 0): Code.NONE}


@scenario(topics={"t": 7, "u": 1})
async def test_many_are_looked_at_in_slices_and_not_overtaken(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn, "PARTITIONS_A_STEP", 2)
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
@scenario(topics={"t": 2})
async def test_several_transactions_at_once(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    one, two = await begun(broker, "one"), await begun(broker, "two")
    wrong = Producer(one.id, one.epoch + 1)
    found = await add_as_broker(
        broker,
        version,
        asked_by_broker(one, {"t": [0, 1]}, "one"),
        asked_by_broker(two, {"t": [1, 2]}, "two"),
        asked_by_broker(one, {"t": [0]}, "nobody's"),
        asked_by_broker(wrong, {"t": [0]}, "one"),
    )
    assert found["two"] == {
        ("t", 1): Code.OPERATION_NOT_ATTEMPTED,
        ("t", 2): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert found["nobody's"] == {("t", 0): Code.INVALID_PRODUCER_ID_MAPPING}
    assert found["one"] == {("t", 0): Code.PRODUCER_FENCED}, "the last of two answers"
    assert await partitions(broker, "one") == {"t": [0, 1]}
    assert await partitions(broker, "two") == {}


@pytest.mark.parametrize("version", OF_BROKERS)
@scenario(topics={"t": 3})
async def test_asking_adds_nothing(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    producer = await begun(broker)

    async def verified(by: Producer = producer, transactional_id: str = ID) -> dict[int, int]:
        asked = asked_by_broker(by, {"t": [0, 1]}, transactional_id, verify_only=True)
        found = await add_as_broker(broker, version, asked)
        return {index: code for (_, index), code in found[transactional_id].items()}

    def both(code: Code) -> dict[int, int]:
        return {0: code, 1: code}

    assert await verified() == both(Code.TRANSACTION_ABORTABLE)
    await add(broker, producer, {"t": [1]})
    assert await verified() == {0: Code.TRANSACTION_ABORTABLE, 1: Code.NONE}
    assert await partitions(broker) == {"t": [1]}
    assert await verified(Producer(producer.id, 1)) == both(Code.PRODUCER_FENCED)
    assert await verified(Producer(77, 0)) == both(Code.INVALID_PRODUCER_ID_MAPPING)
    assert await verified(producer, "") == both(Code.INVALID_REQUEST)
    broker.share((1, 2), "t", 1)
    await end(broker, producer)
    assert await verified() == both(Code.CONCURRENT_TRANSACTIONS)
    broker.share((1,), "t", 1)


@pytest.mark.parametrize("version", OF_BROKERS)
@scenario(topics={"t": 1})
async def test_only_brokers_may(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    producer = await begun(broker)
    asked = asked_by_broker(producer, {"t": [0]})
    broker.parts.authorizer = Denied(Operation.CLUSTER_ACTION)
    answer = await ask_as_broker(broker, version, asked)
    assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    assert answer.results_by_transaction == []
    broker.parts.authorizer = Denied(Operation.WRITE)
    found = await add_as_broker(broker, version, asked)
    assert found == {ID: {("t", 0): Code.NONE}}, "the client has been asked what it may"


@pytest.mark.parametrize("version", OF_BROKERS)
@scenario(topics={"t": 1})
async def test_many_transactions(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    ids = [f"id {number}" for number in range(2 * add_partitions_to_txn.TRANSACTIONS_A_STEP + 1)]
    asked = [asked_by_broker(await begun(broker, one), {"t": [0]}, one) for one in ids]
    found = await add_as_broker(broker, version, *asked)
    assert found == {one: {("t", 0): Code.NONE} for one in ids}
    assert await add_as_broker(broker, version) == {}
