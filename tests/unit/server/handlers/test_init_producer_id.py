"""InitProducerId without transactional ids: the answers of Apache Kafka 4.3.1, and ids that
nobody gets twice."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.init_producer_id import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import Client, MemoryBroker, scenario
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)
NEW = {
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "producer_id": -1,
    "producer_epoch": -1,
}


async def ask(client: Client | MemoryBroker, version: int = 4, **values: Any) -> Any:
    return await client.ask("InitProducerId", version, **(NEW | values))


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_a_fresh_id(broker: MemoryBroker, version: int) -> None:
    ids = set()
    for _ in range(3):
        answer = await ask(broker, version)
        assert (answer.error_code, answer.producer_epoch) == (Code.NONE, 0)
        assert answer.producer_id >= 0
        ids.add(answer.producer_id)
    assert len(ids) == 3


@pytest.mark.parametrize("version", [3, 4, 5])
@scenario()
async def test_a_producer_that_has_an_id_gets_another(broker: MemoryBroker, version: int) -> None:
    first = (await ask(broker, version)).producer_id
    again = await ask(broker, version, producer_id=first, producer_epoch=0)
    assert (again.error_code, again.producer_epoch) == (Code.NONE, 0)
    assert again.producer_id != first


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"transactional_id": ""}, Code.INVALID_REQUEST),
        ({"transactional_id": "tx"}, Code.COORDINATOR_NOT_AVAILABLE),
        ({"producer_id": 5}, Code.INVALID_REQUEST),
        ({"producer_epoch": 5}, Code.INVALID_REQUEST),
    ],
)
@scenario()
async def test_what_is_refused(broker: MemoryBroker, values: dict[str, Any], code: Code) -> None:
    answer = await ask(broker, **values)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("timeout_ms", [0, -1])
@scenario()
async def test_the_timeout_means_nothing_without_transactions(
    broker: MemoryBroker, timeout_ms: int
) -> None:
    answer = await ask(broker, transaction_timeout_ms=timeout_ms)
    assert answer.error_code == Code.NONE


@scenario()
async def test_who_may_not(broker: MemoryBroker) -> None:
    broker.parts.authorizer = Denied(Operation.IDEMPOTENT_WRITE)
    assert (await ask(broker)).error_code == Code.CLUSTER_AUTHORIZATION_FAILED


@scenario()
async def test_no_id_is_given_twice(broker: MemoryBroker) -> None:
    """Over several blocks of a thousand ids, at once, and across every way to end."""
    given: list[int] = []
    for end in (broker.restart, broker.kill, broker.crash):
        clients = [broker.connect() for _ in range(20)]
        waiting = [client.send("InitProducerId", 4, **NEW) for client in clients for _ in range(60)]
        await settle(100)
        given += [one.result().producer_id for one in waiting]
        await end()
    given.append((await ask(broker)).producer_id)
    assert len(set(given)) == len(given) == 3601


@scenario()
async def test_ids_wait_for_the_disk(broker: MemoryBroker) -> None:
    """An id of a block that a power cut takes back would be given to somebody else again."""
    broker.jobs.hold()
    waiting = broker.client.send("InitProducerId", 4, **NEW)
    await broker.advance(1000)
    assert not waiting.done()
    broker.jobs.release()
    await settle()
    assert waiting.result().error_code == Code.NONE
