"""InitProducerId: the answers of Apache Kafka 4.3.1, ids that are given only once, and epochs that
fence those who had them before."""

from __future__ import annotations

from typing import Any

from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import Client, MemoryBroker, scenario
from support.memory_network import until
from support.transaction_requests import find
from support.virtual import run_until_idle

NEW = {
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "producer_id": -1,
    "producer_epoch": -1,
}


async def ask(client: Client | MemoryBroker, version: int = 4, **values: Any) -> Any:
    return await client.ask("InitProducerId", version, **(NEW | values))


@scenario()
async def test_no_id_is_given_twice(broker: MemoryBroker) -> None:
    """Over several blocks of a thousand ids, at once, and across every way to end."""
    given: list[int] = []
    for die in (broker.restart, broker.kill, broker.crash):
        clients = [broker.connect() for _ in range(20)]
        waiting = [client.send("InitProducerId", 4, **NEW) for client in clients for _ in range(60)]
        await until(lambda: all(answer.done() for answer in waiting), "all ids")  # noqa: B023
        given += [answer.result().producer_id for answer in waiting]
        await die()
    given.append((await ask(broker)).producer_id)
    assert len(set(given)) == len(given) == 3601


# -- with a transactional id ----------------------------------------------------------------


@scenario()
async def test_each_transactional_id_has_a_producer_of_its_own(broker: MemoryBroker) -> None:
    """Over a block of a thousand ids, at once."""
    ids = [f"id {number}" for number in range(1100)]
    await find(broker)
    clients = [broker.connect() for _ in ids]
    waiting = [
        client.send("InitProducerId", 4, **(NEW | {"transactional_id": transactional_id}))
        for client, transactional_id in zip(clients, ids, strict=True)
    ]
    await run_until_idle(100)
    answers = [answer.result() for answer in waiting]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(Code.NONE, 0)}
    assert len({answer.producer_id for answer in answers}) == len(ids)
