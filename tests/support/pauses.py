"""The pauses that a broker in memory makes on its event loop."""

from __future__ import annotations

from support.memory_broker import MemoryBroker


def pauses_of(broker: MemoryBroker) -> list[float]:
    """The lengths of all pauses from now on, in seconds; 0 for one iteration of the loop."""
    found: list[float] = []
    sleep = broker.tasks.sleep

    async def noting(delay_s: float) -> None:
        found.append(delay_s)
        await sleep(delay_s)

    broker.tasks.sleep = noting  # type: ignore[method-assign]
    return found
