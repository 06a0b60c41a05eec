"""Metrics of transactions and of loading them."""

from __future__ import annotations

from kavka.server.monitoring.metrics import view as view_module
from kavka.txncoord.ending import COMPLETION_RETRY_MS
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import READS, MemoryBroker, scenario
from support.memory_transactions import Transactor
from support.metrics import ON, look
from support.transaction_requests import ID, add, begun, end, find

COORDINATOR = "kafka_server_transaction_coordinator_metrics_"
IDS = "kavka_transactional_ids"
MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
WAITING = f"{MARKERS}unknowndestinationqueuesize"
UNCOMPLETED = f"{MARKERS}logappendretryqueuesize"
ADDITIONS = "kafka_server_addpartitionstotxnmanager_"
UNVERIFIED = f"{ADDITIONS}verificationfailurerate_count"
VERIFYING_MS = f"{ADDITIONS}verificationtimems"


def states(**counts: int) -> dict[tuple[str, ...], float]:
    every = dict.fromkeys(
        ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"), 0
    )
    return {(state,): count for state, count in (every | counts).items()}


@scenario(ON, topics={"t": 1, "u": 1})
async def test_ids_by_state_and_markers_that_wait(broker: MemoryBroker) -> None:
    assert (await look(broker)).all(IDS) == states()
    await find(broker)
    names = ["idle", "open", "one", "two"]
    producers = {name: await begun(broker, name) for name in names}
    for name in names[1:]:
        await add(broker, producers[name], {"t": [0], "u": [0]}, name)
    assert (await look(broker)).all(IDS) == states(Empty=1, Ongoing=3)
    await end(broker, producers["one"], "one", committed=False)
    found = await look(broker)
    assert found.all(IDS) == states(Empty=1, Ongoing=2, CompleteAbort=1)
    assert found[WAITING] == 0
    broker.share((1, 2), "t", 0)
    await end(broker, producers["two"], "two")
    found = await look(broker)
    assert found.all(IDS) == states(Empty=1, Ongoing=1, CompleteAbort=1, PrepareCommit=1)
    assert found[WAITING] == 1
    broker.share((1,), "t", 0)
    await broker.advance(0)
    found = await look(broker)
    assert found.all(IDS) == states(Empty=1, Ongoing=1, CompleteAbort=1, CompleteCommit=1)
    assert found[WAITING] == 0


@scenario(ON, topics={"t": 1})
async def test_transactions_that_cannot_be_completed(broker: MemoryBroker) -> None:
    await find(broker)
    producer = await begun(broker)
    await add(broker, producer, {"t": [0]})
    broker.share((1, 2), "t", 0)
    await end(broker, producer)
    transactions = broker.parts.transactions
    place = transactions.topic, transactions.partition_of(ID)
    broker.share((1,), *place)  # fewer in sync than transaction.state.log.min.isr
    broker.share((1,), "t", 0)
    await broker.advance(0)
    found = await look(broker)
    assert (found[WAITING], found[UNCOMPLETED]) == (0, 1)
    broker.share((1, 2), *place)
    await broker.advance(COMPLETION_RETRY_MS)
    assert (await look(broker))[UNCOMPLETED] == 0


@scenario(ON, topics={"t": 2})
async def test_what_is_asked_about_partitions(broker: MemoryBroker) -> None:
    producer = await Transactor(broker, version=11).init()
    await producer.add()
    assert (await producer.write()).code == Code.NONE
    found = await look(broker)
    assert (found[UNVERIFIED], found[f"{VERIFYING_MS}_count"]) == (0, 1)
    other = ("t", 1)
    assert (await producer.write(other)).code == Code.TRANSACTION_ABORTABLE
    found = await look(broker)
    assert (found[UNVERIFIED], found[f"{VERIFYING_MS}_count"]) == (1, 2)
    assert (await producer.write()).code == Code.NONE, "no coordinator has to be asked"
    assert (await look(broker))[f"{VERIFYING_MS}_count"] == 2


@scenario(ON, topics={"t": 1})
async def test_verification_times(broker: MemoryBroker) -> None:
    producer = await Transactor(broker).init()
    transactions = broker.parts.transactions
    place = transactions.topic, transactions.partition_of(producer.name)
    broker.share((1, 2), *place)
    answer = producer.begin()
    await broker.advance(40)
    assert not answer.done()
    assert (await look(broker))[f"{VERIFYING_MS}_count"] == 0
    broker.unshare(*place)
    await broker.advance(0)
    assert answer.done()
    found = await look(broker)
    assert (found[f"{VERIFYING_MS}_count"], found[f"{VERIFYING_MS}_sum"]) == (1, 40)
    assert found[UNVERIFIED] == 0


@scenario(ON)
async def test_many_are_counted_in_slices(broker: MemoryBroker) -> None:
    await find(broker)
    await begun(broker)
    (shard,) = [shard for shard in broker.parts.transactions.shards() if shard.state.transactions]
    (state,) = shard.state.transactions.values()
    many = 2 * view_module.TRANSACTIONS_PER_STEP + 1
    shard.state.transactions.update({str(number): state for number in range(many - 1)})
    assert (await look(broker)).all(IDS) == states(Empty=many)


@scenario(ON)
async def test_how_long_loading_took(broker: MemoryBroker) -> None:
    await find(broker)
    await begun(broker)
    await broker.kill(holding=READS)
    await broker.advance(700)
    broker.jobs.release()
    await broker.advance(0)
    found = await look(broker)
    assert found[f"{COORDINATOR}partition_load_time_max"] == 700
    assert found[f"{COORDINATOR}partition_load_time_avg"] == 700 / 50
    await broker.advance(30_001)
    assert (await look(broker))[f"{COORDINATOR}partition_load_time_max"] == 0
