"""EndTxn: the answers of each version, and what has become of the transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.end_txn import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import ID, Producer, add, begun, described, end, find

VERSIONS = range(API.lowest, API.highest + 1)
NOBODY = (-1, -1)


async def ongoing(broker: MemoryBroker) -> Producer:
    """The producer of a transaction that has a partition."""
    await find(broker)
    producer = await begun(broker)
    assert await add(broker, producer, {"t": [0]}) == {("t", 0): Code.NONE}
    assert (await described(broker)).transaction_state == "Ongoing"
    return producer


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("committed", "state"), [(True, "CompleteCommit"), (False, "CompleteAbort")]
)
@scenario(topics={"t": 1})
async def test_a_transaction_ends(
    broker: MemoryBroker, version: int, committed: bool, state: str
) -> None:
    producer = await ongoing(broker)
    answer = await end(broker, producer, version=version, committed=committed)
    assert answer.error_code == Code.NONE
    if version == 5:  # KIP-890: each transaction has an epoch
        received = answer.producer_id, answer.producer_epoch
        assert received == (producer.id, producer.epoch + 1)
    found = await described(broker)
    assert (found.transaction_state, found.topics) == (state, [])
    again = await end(broker, producer, version=version, committed=committed)
    assert again.error_code == Code.NONE, "who did not hear the answer asks again"
    other = await end(broker, producer, version=version, committed=not committed)
    assert other.error_code == Code.INVALID_TXN_STATE


@scenario(topics={"t": 1})
async def test_the_next_may_begin_as_soon_as_it_is_answered(broker: MemoryBroker) -> None:
    producer = await ongoing(broker)
    for _ in range(20):
        assert (await end(broker, producer)).error_code == Code.NONE
        assert await add(broker, producer, {"t": [0]}) == {("t", 0): Code.NONE}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (Producer(99, 0), Code.INVALID_PRODUCER_ID_MAPPING),
        (Producer(0, 7), Code.PRODUCER_FENCED),
    ],
)
@scenario(topics={"t": 1})
async def test_another_producer(
    broker: MemoryBroker, version: int, wrong: Producer, code: Code
) -> None:
    assert (await ongoing(broker)).id == 0
    answer = await end(broker, wrong, version=version)
    if version < 2 and code == Code.PRODUCER_FENCED:
        code = Code.INVALID_PRODUCER_EPOCH  # KIP-588
    assert answer.error_code == code
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == NOBODY
    assert (await described(broker)).transaction_state == "Ongoing"


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_what_there_is_not(broker: MemoryBroker, version: int) -> None:
    answer = await end(broker, Producer(0, 0), version=version)
    assert answer.error_code == Code.NOT_COORDINATOR
    await find(broker)
    answer = await end(broker, Producer(0, 0), version=version)
    assert answer.error_code == Code.INVALID_PRODUCER_ID_MAPPING
    answer = await end(broker, Producer(0, 0), "", version=version)
    assert answer.error_code == Code.INVALID_REQUEST
    producer = await begun(broker)
    answer = await end(broker, producer, version=version)
    assert answer.error_code == Code.INVALID_TXN_STATE, "nothing has begun"


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_who_may_not(broker: MemoryBroker, version: int) -> None:
    producer = await ongoing(broker)
    broker.parts.authorizer = Denied((Operation.WRITE, ID))
    answer = await end(broker, producer, version=version)
    assert answer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == NOBODY
    broker.parts.authorizer = Denied()
    assert (await described(broker)).transaction_state == "Ongoing"


@pytest.mark.parametrize("version", [4, 5])
@scenario(topics={"t": 1})
async def test_the_answer_waits_until_it_is_certain(broker: MemoryBroker, version: int) -> None:
    producer = await ongoing(broker)
    transactions = broker.parts.transactions
    partition = transactions.partition_of(ID)
    broker.share((1, 2), transactions.topic, partition)
    values: dict[str, Any] = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    asked = broker.client.send("EndTxn", version, transactional_id=ID, committed=True, **values)
    await broker.advance(1000)
    assert not asked.done()
    broker.share((1,), transactions.topic, partition)
    await broker.advance(0)
    assert asked.result().error_code == Code.NONE
