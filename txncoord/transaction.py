"""The state of one transactional id, and its legal transitions. Pure.

Each transition takes a state and returns the next, as in Apache Kafka 4.3.1. Its states Dead and
PrepareEpochFence are not used: a tombstone removes an expired id, and the record that aborts a
transaction also fences its producer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from heapq import merge
from typing import Final, NamedTuple

from kavka.txncoord.transaction_requests import (
    EPOCH_BUMPED_SINCE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    WriteMarkers,
)
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, PauseCounter, Steps

EPOCH_MAX: Final = 2**15 - 1
EPOCH_GIVEN_MAX: Final = EPOCH_MAX - 1
"""The highest epoch given to a producer, so that a higher one can always fence it."""

NO_TIME: Final = -1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that never times out (KIP-939)."""


class State(IntEnum):
    """Values are those in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name in ListTransactions."""
        return _TITLES[self]


_TITLES: Final[Mapping[State, str]] = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}

SETTLED: Final = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""No transaction is ongoing."""

PREPARED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
"""The result is decided; the markers are being written."""

COMPLETED: Final = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

TOPIC_COST: Final = 5
"""A topic costs as much time as this many partitions."""

LEGAL: Final[Mapping[State, tuple[State, ...]]] = {
    State.EMPTY: SETTLED,
    State.ONGOING: (State.ONGOING, *SETTLED),
    State.PREPARE_COMMIT: (State.ONGOING,),
    State.PREPARE_ABORT: (State.ONGOING, *SETTLED),
    State.COMPLETE_COMMIT: (State.PREPARE_COMMIT,),
    State.COMPLETE_ABORT: (State.PREPARE_ABORT,),
}
"""{new state: states from which the transition is legal}."""


class Transaction(NamedTuple):
    """The state of one transactional id; immutable."""

    state: State
    producer_id: int
    previous_producer_id: int
    """The one before the last transition."""

    next_producer_id: int
    """The producer id to use after the transaction is completed; mostly none."""

    producer_epoch: int
    last_epoch: int
    """The epoch before the current one, with which the producer may retry; the log does not store
    it."""

    timeout_ms: int
    partitions: frozenset[tuple[str, int]]
    started_ms: int
    updated_ms: int
    version: int
    """The transaction version of the client at the last transition."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the epochs of this producer id are used up."""
        return self.producer_epoch >= EPOCH_GIVEN_MAX

    @property
    def times_out_ms(self) -> int | None:
        """When the transaction times out, if one is ongoing."""
        if self.state is not State.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.started_ms + self.timeout_ms

    def by_topic(self) -> Steps[list[tuple[str, list[int]]]]:
        """Its partitions, in order."""
        if len(self.partitions) == 1:  # the most frequent case
            ((topic, index),) = self.partitions
            return [(topic, [index])]
        found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for number, (topic, index) in enumerate(self.partitions, 1):
            found[topic, index // QUICK_ITEMS_PER_STEP].append(index)
            if number % QUICK_ITEMS_PER_STEP == 0:
                yield None
        topics: list[tuple[str, list[int]]] = []
        pauses = PauseCounter()
        for part in (yield from _in_order(list(found))):
            indexes = found.pop(part)
            indexes.sort()
            if topics and topics[-1][0] == part[0]:
                topics[-1][1].extend(indexes)
            else:
                topics.append((part[0], indexes))
            if pauses.is_due(TOPIC_COST + len(indexes)):
                yield None
        return topics

    def transition(self, state: State, **changes: object) -> Transaction:
        """The next state."""
        assert self.state in LEGAL[state], f"{self.state.title} does not become {state.title}"
        return self._replace(
            state=state,
            previous_producer_id=self.producer_id,
            **changes,  # type: ignore[arg-type]
        )


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, before its producer is given an epoch."""
    return Transaction(
        State.EMPTY,
        producer_id,
        NO_PRODUCER_ID,
        NO_PRODUCER_ID,
        NO_EPOCH,
        NO_EPOCH,
        timeout_ms,
        frozenset(),
        NO_TIME,
        now_ms,
        version=0,
    )


def initialised(
    transaction: Transaction,
    *,
    producer_id: int,
    producer_epoch: int,
    last_epoch: int,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """After InitProducerId: its producer has this id and epoch."""
    return transaction.transition(
        State.EMPTY,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=NO_TIME,
        updated_ms=now_ms,
    )


def with_partitions(
    transaction: Transaction, partitions: Iterable[tuple[str, int]], version: int, now_ms: int
) -> Transaction:
    """The state after partitions are added, which begins a transaction if none is ongoing."""
    return transaction.transition(
        State.ONGOING,
        partitions=transaction.partitions.union(partitions),
        started_ms=transaction.started_ms if transaction.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        version=version,
    )


def prepared(
    transaction: Transaction, *, committed: bool, version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The state when the result is decided. From `EPOCH_BUMPED_SINCE` on the epoch is bumped, so
    that late writes of this transaction are fenced; an abort is then legal without a
    transaction."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_epoch
    if version >= EPOCH_BUMPED_SINCE:
        last_epoch = epoch
        epoch = min(epoch + 1, EPOCH_MAX)
    return transaction.transition(
        State.PREPARE_COMMIT if committed else State.PREPARE_ABORT,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        started_ms=transaction.started_ms if transaction.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        version=version,
    )


def fenced(transaction: Transaction) -> Transaction:
    """With a bumped epoch, for an abort by the coordinator before `EPOCH_BUMPED_SINCE`."""
    return transaction._replace(
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX), last_epoch=NO_EPOCH
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """The state when all markers are written."""
    is_commit = transaction.state is State.PREPARE_COMMIT
    producer = producer_after(transaction)
    return transaction.transition(
        State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        updated_ms=now_ms,
    )


def producer_after(transaction: Transaction) -> ProducerIdAndEpoch:
    """The producer id and epoch to use after a prepared transaction."""
    if transaction.version >= EPOCH_BUMPED_SINCE and transaction.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(transaction.next_producer_id, 0)
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _in_order(parts: list[tuple[str, int]]) -> Steps[Iterable[tuple[str, int]]]:
    """Parts of topics, sorted in runs that are merged lazily."""
    runs = []
    for start in range(0, len(parts), QUICK_ITEMS_PER_STEP):
        if start:
            yield None
        runs.append(sorted(parts[start : start + QUICK_ITEMS_PER_STEP]))
    return runs[0] if len(runs) == 1 else merge(*runs)


def markers_of(transactional_id: str, transaction: Transaction) -> Steps[WriteMarkers]:
    """The command to write the markers of a prepared transaction."""
    partitions: list[tuple[str, int]] = []
    pauses = PauseCounter()
    for topic, indexes in (yield from transaction.by_topic()):
        for begin in range(0, len(indexes), QUICK_ITEMS_PER_STEP):
            some = indexes[begin : begin + QUICK_ITEMS_PER_STEP]
            partitions += [(topic, index) for index in some]
            if pauses.is_due(len(some)):
                yield None
    return WriteMarkers(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is State.PREPARE_COMMIT,
        tuple(partitions),
        transaction.version,
    )
