"""A model of the machine in `kavka.txncoord`: Apache Kafka's rules of transactional ids, in tables.

It shares no code with the machine, and knows nothing of records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from kavka.wire.errors import ErrorCode

FENCED: Final = ErrorCode.PRODUCER_FENCED
WRONG_ID: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
WRONG_STATE: Final = ErrorCode.INVALID_TXN_STATE
WAIT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
DONE: Final = "done"
PREPARE: Final = "prepare"

END_V0: Final = {
    "Empty": (WRONG_STATE, WRONG_STATE),
    "Ongoing": (PREPARE, PREPARE),
    "PrepareCommit": (WAIT, WAIT),
    "PrepareAbort": (WAIT, WAIT),
    "CompleteCommit": (DONE, WRONG_STATE),
    "CompleteAbort": (WRONG_STATE, DONE),
}
"""EndTxn up to version 4 from the current producer: for commit and for abort, by state."""

END_V2: Final = {
    ("Empty", "current"): (WRONG_STATE, PREPARE),
    ("Ongoing", "current"): (PREPARE, PREPARE),
    ("CompleteCommit", "retry"): (DONE, WRONG_STATE),
    ("CompleteCommit", "current"): (WRONG_STATE, PREPARE),
    ("CompleteAbort", "retry"): (WRONG_STATE, DONE),
    ("CompleteAbort", "current"): (WRONG_STATE, PREPARE),
}
"""EndTxn from version 5 on (KIP-890), also by the producer's epoch. All else is fenced; while the
markers are being written, all has to wait."""


class NoProducerIds(Exception):
    """No producer id is available."""


@dataclass(frozen=True)
class Known:
    """One transactional id."""

    state: str
    id: int
    epoch: int
    updated_ms: int
    timeout_ms: int
    started_ms: int = -1
    partitions: frozenset[tuple[str, int]] = frozenset()
    version: int = 0
    previous_id: int = -1
    next_id: int = -1
    retry_epoch: int = -1
    """The epoch with which the producer may retry; the log does not store it."""

    plain: bool = False
    """Whether its record is of version 0, without transaction version and other producer ids."""

    @property
    def producer(self) -> tuple[int, int]:
        return self.id, self.epoch

    @property
    def is_ending(self) -> bool:
        return self.state.startswith("Prepare")

    @property
    def markers(self) -> tuple[object, ...]:
        """The markers to write."""
        partitions = tuple(sorted(self.partitions))
        return self.id, self.epoch, self.state == "PrepareCommit", partitions, self.version

    def to(self, state: str, now_ms: int, **changes: Any) -> Known:
        return replace(self, state=state, updated_ms=now_ms, previous_id=self.id, **changes)


class Rules:
    """The response to each request, and the new state if it changes."""

    def __init__(self, last_epoch: int, feature: int, new_id: Callable[[], int]) -> None:
        """`last_epoch`: the last one given to a producer. `new_id` may raise NoProducerIds."""
        self._last_epoch = last_epoch
        self._feature = feature
        self._new_id = new_id

    def init(
        self, known: Known | None, own: tuple[int, int] | None, timeout_ms: int, now_ms: int
    ) -> tuple[object, Known | None]:
        """InitProducerId; `own`: the id and epoch of a producer that continues (KIP-360)."""
        if known is None:
            first = Known("Empty", self._new_id(), 0, now_ms, timeout_ms)
            return first.producer, replace(first, previous_id=first.id)
        if known.is_ending:
            return WAIT, None
        if own is not None and own[0] != known.id:
            if own[0] != known.previous_id or own[1] < self._last_epoch:
                return FENCED, None
        if known.state == "Ongoing":
            return WAIT, self.aborted(known, now_ms)
        if own is not None and own[1] not in (known.epoch, known.retry_epoch):
            return FENCED, None
        fresh = {"timeout_ms": timeout_ms, "started_ms": -1, "partitions": frozenset()}
        if own is not None and own[1] != known.epoch:
            new = known.to("Empty", now_ms, **fresh)
        else:
            retry_epoch = -1 if own is None else known.epoch
            if known.epoch >= self._last_epoch:
                given = {"id": self._new_id(), "epoch": 0}
            else:
                given = {"epoch": known.epoch + 1}
            new = known.to("Empty", now_ms, **fresh, **given, retry_epoch=retry_epoch)
        return new.producer, new

    def add(
        self,
        known: Known | None,
        own: tuple[int, int],
        partitions: frozenset[tuple[str, int]],
        version: int,
        now_ms: int,
    ) -> tuple[object, Known | None]:
        """AddPartitionsToTxn."""
        ending = known is not None and known.is_ending
        code = WAIT if ending else self.may_write(known, own)
        if code is not None or known is None:
            return code, None
        if known.state != "Ongoing":
            return None, known.to(
                "Ongoing", now_ms, partitions=partitions, started_ms=now_ms, version=version
            )
        if partitions <= known.partitions:
            return None, None
        more = known.partitions | partitions
        return None, known.to("Ongoing", now_ms, partitions=more, version=version)

    def may_write(self, known: Known | None, own: tuple[int, int]) -> ErrorCode | None:
        """The error for partitions from this producer; None if it is the current one."""
        if known is None or known.id != own[0]:
            return WRONG_ID
        if known.epoch != own[1]:
            return FENCED
        return WAIT if known.is_ending else None

    def end(
        self, known: Known | None, own: tuple[int, int], committed: bool, version: int, now_ms: int
    ) -> tuple[object, Known | None]:
        """EndTxn; the response has a producer id and epoch from version 2 on."""
        if known is None:
            return WRONG_ID, None
        if version < 2:
            return self._end_v0(known, own, committed, now_ms)
        if known.is_ending:
            return WAIT, None
        whose = self._whose(known, own)
        if whose == "unknown":
            return WRONG_ID, None
        outcome = END_V2.get((known.state, whose), (FENCED, FENCED))[not committed]
        if outcome == PREPARE:
            new = self._prepared(known, committed, now_ms)
            return self.producer_after(new), new
        return known.producer if outcome == DONE else outcome, None

    def _whose(self, known: Known, own: tuple[int, int]) -> str:
        if own == known.producer:
            return "current"
        if own == (known.id, known.epoch - 1):
            return "retry"
        if own == (known.previous_id, self._last_epoch) and known.epoch == 0:
            return "retry"
        return "stale" if own[0] == known.id else "unknown"

    def _end_v0(
        self, known: Known, own: tuple[int, int], committed: bool, now_ms: int
    ) -> tuple[object, Known | None]:
        if own != known.producer:
            return FENCED if own[0] == known.id else WRONG_ID, None
        outcome = END_V0[known.state][not committed]
        if outcome == PREPARE:
            state = "PrepareCommit" if committed else "PrepareAbort"
            return (-1, -1), known.to(state, now_ms, version=0, next_id=-1)
        return (-1, -1) if outcome == DONE else outcome, None

    def _prepared(self, known: Known, committed: bool, now_ms: int) -> Known:
        """With the next epoch, and a new producer id afterwards if that is the last."""
        return known.to(
            "PrepareCommit" if committed else "PrepareAbort",
            now_ms,
            next_id=self._new_id() if known.epoch >= self._last_epoch else -1,
            epoch=min(known.epoch + 1, self._last_epoch + 1),
            retry_epoch=known.epoch,
            started_ms=known.started_ms if known.state == "Ongoing" else now_ms,
            version=2,
        )

    def aborted(self, known: Known, now_ms: int) -> Known:
        """Aborted by the coordinator, which fences the producer."""
        if self._feature >= 2:
            return self._prepared(known, False, now_ms)
        epoch = min(known.epoch + 1, self._last_epoch + 1)
        return known.to("PrepareAbort", now_ms, epoch=epoch, retry_epoch=-1, version=0, next_id=-1)

    def producer_after(self, known: Known) -> tuple[int, int]:
        """The producer's id and epoch when the transaction is complete."""
        return (known.next_id, 0) if known.next_id != -1 else known.producer

    def completed(self, known: Known, now_ms: int) -> Known:
        """All markers are written."""
        producer_id, epoch = self.producer_after(known)
        state = known.state.replace("Prepare", "Complete")
        return known.to(
            state, now_ms, id=producer_id, epoch=epoch, next_id=-1, partitions=frozenset()
        )
