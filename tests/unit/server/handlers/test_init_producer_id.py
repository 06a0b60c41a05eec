"""InitProducerId: the answers of Apache Kafka 4.3.1, ids that nobody gets twice, and epochs that
fence those who had them before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.wire.apis.init_producer_id import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.memory_broker import Client, MemoryBroker, scenario
from support.transaction_requests import ID, Producer, add, begun, described, end, find, init
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
        ({"transactional_id": "", "producer_id": 5, "producer_epoch": 1}, Code.INVALID_REQUEST),
        ({"transactional_id": "tx"}, Code.NOT_COORDINATOR),
        ({"transactional_id": "tx", "producer_id": 5}, Code.INVALID_REQUEST),
        ({"transactional_id": "tx", "producer_epoch": 5}, Code.INVALID_REQUEST),
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
    for die in (broker.restart, broker.kill, broker.crash):
        clients = [broker.connect() for _ in range(20)]
        waiting = [client.send("InitProducerId", 4, **NEW) for client in clients for _ in range(60)]
        await settle(100)
        given += [one.result().producer_id for one in waiting]
        await die()
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


# -- with a transactional id ----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@scenario("kavka.durability=fsync")
async def test_an_id_keeps_its_producer_and_gets_epochs(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    first = await begun(broker, version=version)
    assert first.epoch == 0
    other = await begun(broker, "other", version=version)
    assert other.id != first.id
    again = await begun(broker, version=version)
    assert again == Producer(first.id, 1)
    deaths: list[Callable[[], Awaitable[None]]] = [broker.restart, broker.kill, broker.crash]
    for number, die in enumerate(deaths, 2):
        await die()
        await broker.advance(0)
        assert await begun(broker, version=version) == Producer(first.id, number)
    assert (await described(broker)).transaction_state == "Empty"


@pytest.mark.parametrize("version", [3, 4, 5])
@scenario()
async def test_who_goes_on_must_be_the_one(broker: MemoryBroker, version: int) -> None:
    """KIP-360."""
    await find(broker)
    first = await begun(broker, version=version)
    second = await begun(broker, was=first, version=version)
    assert second == Producer(first.id, 1)
    retry = await begun(broker, was=first, version=version)
    assert retry == second, "who did not hear the answer asks again"
    third = await begun(broker, version=version)
    assert third == Producer(first.id, 2)
    fenced = Code.PRODUCER_FENCED if version >= 4 else Code.INVALID_PRODUCER_EPOCH
    for was in (first, Producer(first.id + 1, 2), Producer(first.id, 3)):
        answer = await init(broker, was=was, version=version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (fenced, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timeout_ms", [0, -1, 50_001])
@scenario("transaction.max.timeout.ms=50000")
async def test_how_long_a_transaction_may_take(
    broker: MemoryBroker, version: int, timeout_ms: int
) -> None:
    await find(broker)
    answer = await init(broker, version=version, timeout_ms=timeout_ms)
    assert answer.error_code == Code.INVALID_TRANSACTION_TIMEOUT
    assert (await described(broker)).error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    await begun(broker, version=version, timeout_ms=50_000)
    assert (await described(broker)).transaction_timeout_ms == 50_000


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"t": 1})
async def test_what_is_left_open_is_aborted_first(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    old = await begun(broker, version=version)
    await add(broker, old, {"t": [0]})
    assert (await init(broker, version=version)).error_code == Code.CONCURRENT_TRANSACTIONS
    assert (await described(broker)).transaction_state == "CompleteAbort"
    new = await begun(broker, version=version)
    assert new.id == old.id and new.epoch > old.epoch
    assert (await end(broker, old)).error_code == Code.PRODUCER_FENCED


@pytest.mark.parametrize("version", VERSIONS)
@scenario()
async def test_who_may_not_have_the_transactional_id(broker: MemoryBroker, version: int) -> None:
    await find(broker)
    broker.parts.authorizer = Denied((Operation.WRITE, ID))
    answer = await init(broker, version=version)
    assert answer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    broker.parts.authorizer = Denied(Operation.IDEMPOTENT_WRITE)
    await begun(broker, version=version)


@scenario()
async def test_while_ids_wait_for_the_disk_nothing_overtakes(broker: MemoryBroker) -> None:
    """The next request of the connection is of the producer that there is going to be."""
    await find(broker)
    broker.jobs.hold()
    waiting = broker.client.send("InitProducerId", 4, **(NEW | {"transactional_id": ID}))
    again = broker.client.send("InitProducerId", 4, **(NEW | {"transactional_id": ID}))
    await broker.advance(1000)
    assert not waiting.done()
    broker.jobs.release()
    await settle()
    first, second = waiting.result(), again.result()
    assert (first.error_code, first.producer_epoch) == (Code.NONE, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@scenario()
async def test_each_transactional_id_has_a_producer_of_its_own(broker: MemoryBroker) -> None:
    """Over a block of a thousand ids, at once."""
    ids = [f"id {number}" for number in range(1100)]
    await find(broker)
    clients = [broker.connect() for _ in ids]
    waiting = [
        client.send("InitProducerId", 4, **(NEW | {"transactional_id": one}))
        for client, one in zip(clients, ids, strict=True)
    ]
    await settle(100)
    answers = [one.result() for one in waiting]
    assert {(one.error_code, one.producer_epoch) for one in answers} == {(Code.NONE, 0)}
    assert len({one.producer_id for one in answers}) == len(ids)
