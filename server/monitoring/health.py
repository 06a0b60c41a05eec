"""Whether a broker is as it should be."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class BrokerState(IntEnum):
    """Where a broker is in its life, with Apache Kafka's numbers for it."""

    NOT_RUNNING = 0
    STARTING = 1
    RUNNING = 3
    SHUTTING_DOWN = 7


class Health(NamedTuple):
    """How a broker is. `problems` are sentences; a broker with some may serve on."""

    state: BrokerState
    problems: tuple[str, ...]
    broker_id: int
    cluster_id: str | None

    @property
    def is_ready(self) -> bool:
        """Whether it serves clients."""
        return self.state is BrokerState.RUNNING

    @property
    def is_well(self) -> bool:
        """Whether it serves clients, and nothing of it is broken."""
        return self.is_ready and not self.problems
