"""The health of a broker."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class BrokerState(IntEnum):
    """A broker's state, with Apache Kafka's numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Health(NamedTuple):
    """A broker's health. A broker may go on serving clients in spite of `problems`."""

    state: BrokerState
    problems: tuple[str, ...]
    broker_id: int
    cluster_id: str | None

    @property
    def is_ready(self) -> bool:
        """Whether it serves clients."""
        return self.state is BrokerState.RUNNING

    @property
    def is_healthy(self) -> bool:
        """Whether it serves clients and has no problems."""
        return self.is_ready and not self.problems
