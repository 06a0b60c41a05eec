"""What transactional ids are to do, as simply as it can be told: tables of Apache Kafka's rules.

A model for the machine in `kavka.txncoord`, which it shares nothing with. It knows nothing of
records: a move that was refused, or is lost with its broker, has not been.
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

END_OF_OLD_CLIENTS: Final = {
    ("Empty", True): WRONG_STATE,
    ("Empty", False): WRONG_STATE,
    ("Ongoing", True): PREPARE,
    ("Ongoing", False): PREPARE,
    ("PrepareCommit", True): WAIT,
    ("PrepareCommit", False): WAIT,
    ("PrepareAbort", True): WAIT,
    ("PrepareAbort", False): WAIT,
    ("CompleteCommit", True): DONE,
    ("CompleteCommit", False): WRONG_STATE,
    ("CompleteAbort", True): WRONG_STATE,
    ("CompleteAbort", False): DONE,
}
"""EndTxn up to version 4, of the right producer: by state, and by what is asked for."""

END: Final = {
    ("Empty", "current", True): WRONG_STATE,
    ("Empty", "current", False): PREPARE,
    ("Ongoing", "current", True): PREPARE,
    ("Ongoing", "current", False): PREPARE,
    ("CompleteCommit", "again", True): DONE,
    ("CompleteCommit", "again", False): WRONG_STATE,
    ("CompleteCommit", "again, with another id", True): DONE,
    ("CompleteCommit", "again, with another id", False): WRONG_STATE,
    ("CompleteCommit", "current", True): WRONG_STATE,
    ("CompleteCommit", "current", False): PREPARE,
    ("CompleteAbort", "again", True): WRONG_STATE,
    ("CompleteAbort", "again", False): DONE,
    ("CompleteAbort", "again, with another id", True): WRONG_STATE,
    ("CompleteAbort", "again, with another id", False): DONE,
    ("CompleteAbort", "current", True): WRONG_STATE,
    ("CompleteAbort", "current", False): PREPARE,
}
"""EndTxn from version 5 on (KIP-890), by state, by whose epoch it is, and by what is asked for.
What is not here is fenced; while a transaction is ending, all has to wait."""


class NoFreshIds(Exception):
    """There is no producer id to be had."""


@dataclass(frozen=True)
class Known:
    """One transactional id."""

    state: str
    id: int
    epoch: int
    changed_ms: int
    timeout_ms: int
    began_ms: int = -1
    partitions: frozenset[tuple[str, int]] = frozenset()
    version: int = 0
    id_before: int = -1
    id_next: int = -1
    own_before: int = -1
    """The producer's epoch that it may have asked for the present one with; forgotten in a move."""

    plain: bool = False
    """Whether it was written in the old form, which does not have version and other ids."""

    @property
    def producer(self) -> tuple[int, int]:
        return self.id, self.epoch

    @property
    def is_ending(self) -> bool:
        return self.state.startswith("Prepare")

    @property
    def markers(self) -> tuple[object, ...]:
        """What its markers say, where, and by which version it ends."""
        partitions = tuple(sorted(self.partitions))
        return self.id, self.epoch, self.state == "PrepareCommit", partitions, self.version

    def to(self, state: str, now_ms: int, **changes: Any) -> Known:
        return replace(self, state=state, changed_ms=now_ms, id_before=self.id, **changes)


class Rules:
    """What requests lead to: an answer or a refusal, and the new state if it is one."""

    def __init__(self, last_epoch: int, feature: int, fresh_id: Callable[[], int]) -> None:
        """`last_epoch`: the last that a producer is given. `fresh_id` may raise NoFreshIds."""
        self._last_epoch = last_epoch
        self._feature = feature
        self._fresh_id = fresh_id

    def init(
        self, known: Known | None, own: tuple[int, int] | None, timeout_ms: int, now_ms: int
    ) -> tuple[object, Known | None]:
        """InitProducerId; `own`: what the producer has by now (KIP-360)."""
        if known is None:
            first = Known("Empty", self._fresh_id(), 0, now_ms, timeout_ms)
            return first.producer, replace(first, id_before=first.id)
        if known.is_ending:
            return WAIT, None
        if own is not None and own[0] != known.id:
            if own[0] != known.id_before or own[1] < self._last_epoch:
                return FENCED, None
        if known.state == "Ongoing":
            return WAIT, self.aborted(known, now_ms)
        if own is not None and own[1] not in (known.epoch, known.own_before):
            return FENCED, None
        fresh = {"timeout_ms": timeout_ms, "began_ms": -1, "partitions": frozenset()}
        if own is not None and own[1] != known.epoch:
            new = known.to("Empty", now_ms, **fresh)
        else:
            own_before = -1 if own is None else known.epoch
            if known.epoch >= self._last_epoch:
                given = {"id": self._fresh_id(), "epoch": 0}
            else:
                given = {"epoch": known.epoch + 1}
            new = known.to("Empty", now_ms, **fresh, **given, own_before=own_before)
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
                "Ongoing", now_ms, partitions=partitions, began_ms=now_ms, version=version
            )
        if partitions <= known.partitions:
            return None, None
        more = known.partitions | partitions
        return None, known.to("Ongoing", now_ms, partitions=more, version=version)

    def may_write(self, known: Known | None, own: tuple[int, int]) -> ErrorCode | None:
        """Whether a producer is the one that may have partitions in a transaction."""
        if known is None or known.id != own[0]:
            return WRONG_ID
        if known.epoch != own[1]:
            return FENCED
        return WAIT if known.is_ending else None

    def end(
        self, known: Known | None, own: tuple[int, int], committed: bool, version: int, now_ms: int
    ) -> tuple[object, Known | None]:
        """EndTxn; the answer tells a producer to newer clients only."""
        if known is None:
            return WRONG_ID, None
        if version < 2:
            return self._end_of_old_client(known, own, committed, now_ms)
        if known.is_ending:
            return WAIT, None
        whose = self._whose(known, own)
        if whose == "nobody's":
            return WRONG_ID, None
        outcome = END.get((known.state, whose, committed), FENCED)
        if outcome == PREPARE:
            new = self._prepared(known, committed, now_ms)
            return self.after(new), new
        return known.producer if outcome == DONE else outcome, None

    def _whose(self, known: Known, own: tuple[int, int]) -> str:
        if own == known.producer:
            return "current"
        if own == (known.id, known.epoch - 1):
            return "again"
        if own == (known.id_before, self._last_epoch) and known.epoch == 0:
            return "again, with another id"
        return "an older one's" if own[0] == known.id else "nobody's"

    def _end_of_old_client(
        self, known: Known, own: tuple[int, int], committed: bool, now_ms: int
    ) -> tuple[object, Known | None]:
        if own != known.producer:
            return FENCED if own[0] == known.id else WRONG_ID, None
        outcome = END_OF_OLD_CLIENTS[known.state, committed]
        if outcome == PREPARE:
            state = "PrepareCommit" if committed else "PrepareAbort"
            return (-1, -1), known.to(state, now_ms, version=0, id_next=-1)
        return (-1, -1) if outcome == DONE else outcome, None

    def _prepared(self, known: Known, committed: bool, now_ms: int) -> Known:
        """With a new epoch, and a new id to follow if that is the last."""
        return known.to(
            "PrepareCommit" if committed else "PrepareAbort",
            now_ms,
            id_next=self._fresh_id() if known.epoch >= self._last_epoch else -1,
            epoch=min(known.epoch + 1, self._last_epoch + 1),
            own_before=known.epoch,
            began_ms=known.began_ms if known.state == "Ongoing" else now_ms,
            version=2,
        )

    def aborted(self, known: Known, now_ms: int) -> Known:
        """Without the producer's own doing, which is fenced by that."""
        if self._feature >= 2:
            return self._prepared(known, False, now_ms)
        epoch = min(known.epoch + 1, self._last_epoch + 1)
        return known.to("PrepareAbort", now_ms, epoch=epoch, own_before=-1, version=0, id_next=-1)

    def after(self, known: Known) -> tuple[int, int]:
        """Who the producer is when the transaction is complete."""
        return (known.id_next, 0) if known.id_next != -1 else known.producer

    def completed(self, known: Known, now_ms: int) -> Known:
        """All markers are written."""
        producer_id, epoch = self.after(known)
        state = known.state.replace("Prepare", "Complete")
        return known.to(
            state, now_ms, id=producer_id, epoch=epoch, id_next=-1, partitions=frozenset()
        )
