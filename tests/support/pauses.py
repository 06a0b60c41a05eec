"""Whether work lets others have the loop: the pauses that a broker in memory makes."""

from __future__ import annotations

from support.memory_broker import MemoryBroker


def pauses_of(broker: MemoryBroker) -> list[float]:
    """How long each pause is meant to be, in seconds; noted from now on."""
    found: list[float] = []
    sleep = broker.tasks.sleep

    async def noting(delay_s: float) -> None:
        found.append(delay_s)
        await sleep(delay_s)

    broker.tasks.sleep = noting  # type: ignore[method-assign]
    return found
