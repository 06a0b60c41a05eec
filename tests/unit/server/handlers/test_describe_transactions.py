"""DescribeTransactions: what is told of each id, and of what a client may not see."""

from __future__ import annotations

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import describe_transactions
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import ID, Producer, add, begun, described, end, find


@scenario(topics={"t": 3, "u": 1})
async def test_what_is_known(broker: MemoryBroker) -> None:
    await find(broker)
    producer = await begun(broker, timeout_ms=12_345)
    found = await described(broker)
    assert (found.error_code, found.transactional_id) == (Code.NONE, ID)
    assert found.transaction_state == "Empty"
    assert found.transaction_timeout_ms == 12_345
    assert found.transaction_start_time_ms == -1
    assert Producer(found.producer_id, found.producer_epoch) == producer
    await broker.advance(1000)
    began_ms = broker.clock.now_ms()
    await add(broker, producer, {"u": [0], "t": [2, 0]})
    await broker.advance(1000)
    await add(broker, producer, {"t": [1]})
    found = await described(broker)
    assert found.transaction_state == "Ongoing"
    assert found.transaction_start_time_ms == began_ms
    topics = {one.topic: sorted(one.partitions) for one in found.topics}
    assert topics == {"t": [0, 1, 2], "u": [0]}
    await end(broker, producer)
    found = await described(broker)
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])


@scenario()
async def test_what_is_not(broker: MemoryBroker) -> None:
    assert (await described(broker)).error_code == Code.NOT_COORDINATOR
    await find(broker)
    await begun(broker)
    states = await described(broker, ID, "none", "", ID)
    assert [(one.transactional_id, one.error_code) for one in states] == [
        (ID, Code.NONE),
        ("none", Code.TRANSACTIONAL_ID_NOT_FOUND),
        ("", Code.INVALID_REQUEST),
        (ID, Code.NONE),
    ]
    answer = await broker.ask("DescribeTransactions", 0, transactional_ids=[])
    assert answer.transaction_states == []


@scenario(topics={"t": 1, "u": 1})
async def test_who_may_not_see_it(broker: MemoryBroker) -> None:
    await find(broker)
    await add(broker, await begun(broker, "mine"), {"t": [0], "u": [0]}, "mine")
    await begun(broker, "theirs")
    broker.parts.authorizer = Denied((Operation.DESCRIBE, "theirs"), (Operation.DESCRIBE, "t"))
    mine, theirs, none = await described(broker, "mine", "theirs", "")
    assert [one.topic for one in mine.topics] == ["u"]
    assert theirs.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (theirs.transaction_state, theirs.producer_id) == ("", 0)
    assert none.error_code == Code.INVALID_REQUEST


@scenario(topics={"t": 1})
async def test_what_a_fail_over_could_take_back_is_not_told(broker: MemoryBroker) -> None:
    await find(broker)
    producer = await begun(broker)
    transactions = broker.parts.transactions
    partition = transactions.partition_of(ID)
    broker.share((1, 2), transactions.topic, partition)
    other = broker.connect()
    adding = broker.tasks.spawn(add(broker, producer, {"t": [0]}), name="adding")
    await broker.advance(0)
    asked = other.send("DescribeTransactions", 0, transactional_ids=[ID])
    await broker.advance(1000)
    assert not asked.done()
    broker.share((1,), transactions.topic, partition)
    await broker.advance(0)
    assert await adding == {("t", 0): Code.NONE}
    assert asked.result().transaction_states[0].transaction_state == "Ongoing"


@scenario(topics={"t": 20})
async def test_many_in_slices(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_transactions, "IDS_A_STEP", 7)
    await find(broker)
    ids = [f"id {number}" for number in range(30)]
    for one in ids[:3]:
        await add(broker, await begun(broker, one), {"t": range(20)}, one)
    states = await described(broker, *ids)
    assert [one.transactional_id for one in states] == ids
    assert [len(one.topics) for one in states] == [1] * 3 + [0] * 27
