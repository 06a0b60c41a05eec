"""What may go wrong while the mirror copies, and how often it is tried again."""

from __future__ import annotations

from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.perf.client import now_ms

TRIES_MAX: Final = 5
FORGOTTEN_AFTER_MS: Final = 600_000
"""Since the last try; what gets a partition stuck then is taken for something else."""

PAUSE_S_MAX: Final = 30.0
FORGOTTEN_PAUSES_MS: Final = 60_000
"""After the last pause; what has worked for so long does not fail again and again."""

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

    def __init__(
        self,
        topic_partition: TopicPartition,
        text: str,
        remedy: str,
        *,
        offset: int | None = None,
        tries_max: int = TRIES_MAX,
    ) -> None:
        """`offset`: that of the first record in the source; `tries_max`: of this one."""
        super().__init__(text)
        self.topic_partition, self.remedy, self.offset, self.tries_max = (
            topic_partition,
            remedy,
            offset,
            tries_max,
        )


class Declined(Failed):
    """A broker refuses what is asked: to ask it again gives the same."""


class Tries:
    """How often each partition got stuck before another of its records was copied."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[int, int, list[int | None]]] = {}
        """How many of its records were copied, when the last try was, and at which offset each."""

    def count(self, stuck: Stuck, copied: int) -> int:
        """How many, with this one, after so many of the partition's records were copied. Failed if
        they were too many, in all or at this offset: when configs are changed again and again,
        another record is refused each time."""
        now = now_ms()
        before, last_ms, offsets = self._last.get(stuck.topic_partition, (copied, now, []))
        if copied != before or now - last_ms > FORGOTTEN_AFTER_MS:
            offsets = []
        offsets = [*offsets, stuck.offset]
        self._last[stuck.topic_partition] = copied, now, offsets
        same = offsets.count(stuck.offset)
        if same >= stuck.tries_max or len(offsets) >= TRIES_MAX:
            said = f"{stuck}, {same if same > 1 else len(offsets)} times now"
            raise Failed(f"{said}; {stuck.remedy}" if stuck.remedy else said) from stuck
        return len(offsets)


class Pauses:
    """How long to wait before it begins anew: not at all first, then longer each time that nothing
    was copied in between."""

    def __init__(self) -> None:
        self._count, self._copied, self._last_ms = 0, -1, 0

    def next_s(self, copied: int) -> float:
        """After so many records were copied in all."""
        now = now_ms()
        if copied != self._copied or now - self._last_ms > FORGOTTEN_PAUSES_MS:
            self._count = 0
        self._count, self._copied = self._count + 1, copied
        pause_s = min(PAUSE_S_MAX, 2.0 ** (self._count - 2)) if self._count > 1 else 0.0
        self._last_ms = now + round(1000 * pause_s)
        return pause_s


def may_last(error: Any) -> bool:
    """Whether an error of a broker is none that waiting helps against."""
    name: str = error.name()
    return name not in PASSING and not name.startswith("_")
