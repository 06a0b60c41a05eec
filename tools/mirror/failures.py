"""What may go wrong while the mirror copies, and how often it is tried again."""

from __future__ import annotations

from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.perf.client import now_ms

TRIES_MAX: Final = 5
FORGOTTEN_AFTER_MS: Final = 600_000
"""Since the last try; what gets a partition stuck then is taken for something else."""

PASSING: Final = frozenset(
    {
        "BROKER_NOT_AVAILABLE",
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PART",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TRANSPORT",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)
"""Errors, by librdkafka's names, that come while brokers are down or leaders change, and are over
when those are back; however long that takes."""


class Again(Exception):
    """Something went wrong: nobody knows whether the transaction was committed. Begin anew with
    what the ledger says."""


class Fenced(Again):
    """Perhaps another writer has the transactional id; or the transaction has taken too long."""


class Stuck(Again):
    """The target refuses a record for a reason that may last."""

    def __init__(self, place: Place, text: str, remedy: str, tries_max: int = TRIES_MAX) -> None:
        super().__init__(text)
        self.place, self.remedy, self.tries_max = place, remedy, tries_max


class Tries:
    """How often each partition got stuck at one point."""

    def __init__(self) -> None:
        self._last: dict[Place, tuple[int, int, int]] = {}
        """How many of its records were copied, how many tries there were, when the last was."""

    def count(self, stuck: Stuck, copied: int) -> int:
        """How many, with this one, after so many of the partition's records were copied. Failed if
        they were too many without another record."""
        now = now_ms()
        before, tries, last_ms = self._last.get(stuck.place, (copied, 0, now))
        if copied != before or now - last_ms > FORGOTTEN_AFTER_MS:
            tries = 0
        self._last[stuck.place] = copied, tries + 1, now
        if tries + 1 >= stuck.tries_max:
            said = f"{stuck}, {tries + 1} times now"
            raise Failed(f"{said}; {stuck.remedy}" if stuck.remedy else said) from stuck
        return tries + 1


def may_last(error: Any) -> bool:
    """Whether an error of a broker is none that waiting helps against."""
    name: str = error.name()
    return name not in PASSING and not name.startswith("_")
