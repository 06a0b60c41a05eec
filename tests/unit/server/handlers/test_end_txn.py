"""EndTxn: the answers of each version, and what has become of the transaction."""

from __future__ import annotations

from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import Producer, add, begun, described, end, find


async def ongoing(broker: MemoryBroker) -> Producer:
    """The producer of a transaction that has a partition."""
    await find(broker)
    producer = await begun(broker)
    assert await add(broker, producer, {"t": [0]}) == {("t", 0): Code.NONE}
    assert (await described(broker)).transaction_state == "Ongoing"
    return producer


@scenario(topics={"t": 1})
async def test_the_next_may_begin_as_soon_as_it_is_answered(broker: MemoryBroker) -> None:
    producer = await ongoing(broker)
    for _ in range(20):
        assert (await end(broker, producer)).error_code == Code.NONE
        assert await add(broker, producer, {"t": [0]}) == {("t", 0): Code.NONE}
