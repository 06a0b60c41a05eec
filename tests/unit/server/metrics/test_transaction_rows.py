"""What is told of transactions and of loading them."""

from __future__ import annotations

from kavka.server.metrics import view as view_module
from support.memory_broker import MemoryBroker, scenario
from support.metrics import ON, look
from support.transaction_requests import add, begun, end, find

COORDINATOR = "kafka_server_transaction_coordinator_metrics_"
IDS = "kavka_transactional_ids"
WAITING = (
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
)


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


@scenario(ON)
async def test_many_are_counted_in_slices(broker: MemoryBroker) -> None:
    await find(broker)
    await begun(broker)
    (shard,) = [one for one in broker.parts.transactions.shards() if one.state.transactions]
    (state,) = shard.state.transactions.values()
    many = 2 * view_module.TRANSACTIONS_PER_SLICE + 1
    shard.state.transactions.update({str(number): state for number in range(many - 1)})
    assert (await look(broker)).all(IDS) == states(Empty=many)


@scenario(ON)
async def test_how_long_loading_took(broker: MemoryBroker) -> None:
    await find(broker)
    await begun(broker)
    await broker.die()
    broker._new_life(type(broker.network)())
    broker.jobs.hold("_MemFile.pread")
    await broker.start()
    await broker.advance(700)
    broker.jobs.release()
    await broker.advance(0)
    found = await look(broker)
    assert found[f"{COORDINATOR}partition_load_time_max"] == 700
    assert found[f"{COORDINATOR}partition_load_time_avg"] == 700 / 50
    await broker.advance(30_001)
    assert (await look(broker))[f"{COORDINATOR}partition_load_time_max"] == 0
