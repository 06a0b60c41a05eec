"""The end of transactions: by EndTxn, or because the producer is fenced or timed out. Pure.

A prepared transaction stays so until all its markers are written, however long that takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Final

from kavka.log.journal import Decision, DecisionOrSteps, Reply, ReplyFuture
from kavka.txncoord.state import TransactionsState, pausing
from kavka.txncoord.transaction import (
    COMPLETED,
    EPOCH_GIVEN_MAX,
    PREPARED,
    State,
    Transaction,
    completed,
    fenced,
    markers_of,
    prepared,
    producer_after,
)
from kavka.txncoord.transaction_requests import (
    EPOCH_BUMPED_SINCE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    EndTxn,
    NeedsProducerId,
    ProducerIdAndEpoch,
    ReserveProducerIds,
    WriteMarkers,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

LOADED_PER_STEP: Final = 1_000
"""Ids processed between two pauses after the log has been replayed, at up to 2 us each."""

COMPLETION_RETRY_MS: Final = 500
"""Delay before retrying to append the record of a completed transaction. Nothing notifies when
the partition can be appended to again."""

_NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


class Ending:
    """Handles EndTxn for one partition of `__transaction_state`. Aborts the transactions of
    producers that are fenced or timed out, and completes transactions whose markers are written."""

    def __init__(self, state: TransactionsState) -> None:
        self._state: Final = state
        self._pending_markers: Final[dict[str, WriteMarkers]] = {}
        """Markers that are requested and not yet reported as written."""

        self.uncompleted: Final[set[str]] = set()
        """Ids whose markers are written, but the record of their completion could not be."""

    # -- EndTxn ------------------------------------------------------------------------------

    def end(self, request: EndTxn, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        """EndTxn; replies with a ProducerIdAndEpoch. ApiError; NeedsProducerId."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self._state.transactions.get(request.transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if request.version >= EPOCH_BUMPED_SINCE:
            return (yield from self._end_v2(transaction, request, future, now_ms))
        return (yield from self._end_v0(transaction, request, future, now_ms))

    def _end_v0(
        self, transaction: Transaction, request: EndTxn, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """For clients of transaction version 0, whose response has no producer id and epoch."""
        if request.producer_id != transaction.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if request.producer_epoch != transaction.producer_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        check_settled(transaction)
        if transaction.state is State.ONGOING:
            new = prepared(
                transaction,
                committed=request.committed,
                version=0,
                next_producer_id=NO_PRODUCER_ID,
                now_ms=now_ms,
            )
            replies = [Reply(future, _NO_PRODUCER)]
            return (yield from self._prepare(request.transactional_id, new, replies))
        _check_result(transaction, request)
        return Decision(replies=[Reply(future, _NO_PRODUCER)])

    def _end_v2(
        self, transaction: Transaction, request: EndTxn, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """For clients of transaction version 2: the epoch distinguishes a retry from the next
        transaction, and an abort is legal even if no transaction was begun (KIP-890)."""
        check_settled(transaction)
        was_last = _was_last_epoch(transaction, request)
        if request.producer_id != transaction.producer_id and not was_last:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_before = transaction.producer_epoch == request.producer_epoch + 1
        if (is_before or was_last) and transaction.state in COMPLETED:
            _check_result(transaction, request)
            return Decision(replies=[Reply(future, _producer(transaction))])
        if request.producer_epoch != transaction.producer_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if transaction.state is not State.ONGOING and request.committed:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        new = self._prepared_v2(transaction, request.committed, now_ms)
        replies = [Reply(future, producer_after(new))]
        return (yield from self._prepare(request.transactional_id, new, replies))

    def _prepared_v2(self, transaction: Transaction, committed: bool, now_ms: int) -> Transaction:
        next_id = (
            self._state.new_producer_id() if transaction.is_epoch_exhausted else NO_PRODUCER_ID
        )
        return prepared(
            transaction,
            committed=committed,
            version=EPOCH_BUMPED_SINCE,
            next_producer_id=next_id,
            now_ms=now_ms,
        )

    # -- timeout and fencing ---------------------------------------------------------------

    def abort(self, transactional_id: str, replies: list[Reply], now_ms: int) -> Steps[Decision]:
        """Fence the producer of an ongoing transaction, and abort it. NeedsProducerId."""
        transaction = self._state.transactions[transactional_id]
        if self._state.settings().kavka_transaction_version >= EPOCH_BUMPED_SINCE:
            new = self._prepared_v2(transaction, False, now_ms)
        else:
            new = prepared(
                fenced(transaction),
                committed=False,
                version=0,
                next_producer_id=NO_PRODUCER_ID,
                now_ms=now_ms,
            )
        return (yield from self._prepare(transactional_id, new, replies))

    def set_timeout(
        self, transactional_id: str, transaction: Transaction, not_before_ms: int = 0
    ) -> None:
        """Set the timer that aborts a timed-out transaction, at a multiple of
        `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
        key = ("timeout", transactional_id)
        at_ms = transaction.times_out_ms
        if at_ms is None:
            self._state.timers.cancel(key)
            return
        settings = self._state.settings()
        every_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        at_ms = max(at_ms, not_before_ms)
        self._state.timers.set(key, (at_ms // every_ms + 1) * every_ms)

    def _time_out(self, transactional_id: str, now_ms: int) -> Steps[Decision]:
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None or transaction.times_out_ms is None:
            return Decision()
        if transaction.times_out_ms >= now_ms:
            self.set_timeout(transactional_id, transaction)
            return Decision()
        try:
            return (yield from self.abort(transactional_id, [], now_ms))
        except NeedsProducerId:
            self.set_timeout(transactional_id, transaction, now_ms)
            return Decision(commands=[ReserveProducerIds()])

    # -- markers ----------------------------------------------------------------------------

    def _prepare(
        self, transactional_id: str, new: Transaction, replies: list[Reply]
    ) -> Steps[Decision]:
        assert transactional_id not in self._pending_markers
        record = yield from self._state.record(transactional_id, new)
        markers = yield from markers_of(transactional_id, new)
        self._pending_markers[transactional_id] = markers
        refused = partial(self._not_prepared, markers, replies)
        return Decision([record], replies, [markers], refused)

    def _not_prepared(
        self, markers: WriteMarkers, replies: list[Reply], code: ErrorCode, now_ms: int
    ) -> Decision:
        """Reply with `code`, since the record that prepares the end could not be appended, or was
        not committed in time. If it was applied, retry to write the markers."""
        transactional_id = markers.transactional_id
        transaction = self._state.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            self._state.timers.set(("markers", transactional_id), now_ms)
        else:
            del self._pending_markers[transactional_id]
            if transaction is not None:
                self.set_timeout(transactional_id, transaction, now_ms)
        return Decision(replies=[Reply(future, ApiError(code)) for future, _ in replies])

    def _write_markers(self, transactional_id: str) -> Decision:
        """Request the markers once the PREPARE record is committed."""
        markers = self._pending_markers[transactional_id]
        return Decision(commands=[markers], on_failure=partial(self._not_prepared, markers, []))

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """Set timeouts, and write the markers of prepared transactions. Some decisions are empty:
        they are pauses, so that this can be done in slices."""
        for count, transactional_id in enumerate(list(self._state.transactions), 1):
            transaction = self._state.transactions[transactional_id]
            if transaction.state in PREPARED:
                markers = yield from pausing(markers_of(transactional_id, transaction))
                self._pending_markers[transactional_id] = markers
                yield self._write_markers(transactional_id)
            elif transaction.state is State.ONGOING:
                self.set_timeout(transactional_id, transaction, now_ms)
            if count % LOADED_PER_STEP == 0:
                yield Decision()

    def markers_written(
        self, markers: WriteMarkers, future: ReplyFuture, now_ms: int
    ) -> DecisionOrSteps:
        """Complete a transaction whose markers are all written, or their partitions deleted.
        Replies with None. Duplicates, and markers of another transaction, are ignored."""
        replies = [Reply(future, None)]
        if self._pending_markers.get(markers.transactional_id) is not markers:
            return Decision(replies=replies)
        del self._pending_markers[markers.transactional_id]
        return self._complete(markers.transactional_id, replies, now_ms)

    def _complete(
        self, transactional_id: str, replies: list[Reply], now_ms: int
    ) -> Steps[Decision]:
        transaction = self._state.transactions[transactional_id]
        record = yield from self._state.record(transactional_id, completed(transaction, now_ms))
        self.uncompleted.discard(transactional_id)

        def refused(code: ErrorCode, now_ms: int) -> Decision:
            if self._state.transactions.get(transactional_id) is transaction:
                self.uncompleted.add(transactional_id)
                self._state.timers.set(("complete", transactional_id), now_ms + COMPLETION_RETRY_MS)
            return Decision(replies=replies)

        return Decision([record], replies, on_failure=refused)

    def expire(self, key: Hashable, now_ms: int) -> DecisionOrSteps:
        """Handle an expired timer of a transaction: its timeout, or a retry."""
        assert isinstance(key, tuple)
        timer_kind, transactional_id = key
        if timer_kind == "timeout":
            return self._time_out(transactional_id, now_ms)
        if timer_kind == "markers":
            return self._write_markers(transactional_id)
        return self._complete(transactional_id, [], now_ms)


def _was_last_epoch(transaction: Transaction, request: EndTxn) -> bool:
    """Whether the epoch was the last one of the previous producer id."""
    return (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_GIVEN_MAX
        and transaction.producer_epoch == 0
    )


def _producer(transaction: Transaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def check_settled(transaction: Transaction) -> None:
    """ApiError while markers are being written. With transaction version 2 this is the first
    check: the producer may have a new id or epoch that is valid only afterwards (KIP-890)."""
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _check_result(transaction: Transaction, request: EndTxn) -> None:
    """Check a retried EndTxn. ApiError if its result differs from the first one's."""
    if (
        transaction.state is State.EMPTY
        or (transaction.state is State.COMPLETE_COMMIT) != request.committed
    ):
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
