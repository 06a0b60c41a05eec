"""InitProducerId and AddPartitionsToTxn: the id and epoch of a transactional producer, and the
partitions of its transaction. Pure."""

from __future__ import annotations

from typing import Final

from kavka.log.journal import Decision, Reply, ReplyFuture
from kavka.txncoord import transaction_records
from kavka.txncoord.ending import Ending, check_settled
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import (
    EPOCH_GIVEN_MAX,
    PREPARED,
    State,
    Transaction,
    created,
    initialised,
    with_partitions,
)
from kavka.txncoord.transaction_requests import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    AddPartitions,
    InitProducerId,
    ProducerIdAndEpoch,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps


class TransactionalProducers:
    """Handles InitProducerId and AddPartitionsToTxn for one partition of `__transaction_state`."""

    def __init__(self, state: TransactionsState, ending: Ending) -> None:
        self._state: Final = state
        self._ending: Final = ending

    # -- InitProducerId ---------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerId, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """InitProducerId; replies with a ProducerIdAndEpoch. Aborts an ongoing transaction and
        replies CONCURRENT_TRANSACTIONS. Raises ApiError, NeedsProducerId."""
        transactional_id = request.transactional_id
        self._check(request)
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None:
            transaction = created(self._state.new_producer_id(), request.timeout_ms, now_ms)
        check_settled(transaction)
        if not _may_continue(transaction, request):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if transaction.state is State.ONGOING:
            retry = ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
            replies = [Reply(future, retry)]
            return (yield from self._ending.abort(transactional_id, replies, now_ms))
        producer, last_epoch = self._next_producer(transaction, request)
        new = initialised(
            transaction,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_epoch=last_epoch,
            timeout_ms=request.timeout_ms,
            now_ms=now_ms,
        )
        record = yield from self._state.record(transactional_id, new)
        return Decision([record], [Reply(future, producer)])

    def _check(self, request: InitProducerId) -> None:
        """Validate the request. ApiError."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if len(request.transactional_id.encode()) > transaction_records.ID_BYTES_MAX:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the transactional id is too long")
        if not 0 < request.timeout_ms <= self._state.settings().transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def _next_producer(
        self, transaction: Transaction, request: InitProducerId
    ) -> tuple[ProducerIdAndEpoch, int]:
        """The producer's new id and epoch, and the epoch with which it may retry (KIP-360).
        ApiError PRODUCER_FENCED; NeedsProducerId."""
        continues = request.producer_id != NO_PRODUCER_ID
        is_current = transaction.producer_epoch in (request.producer_epoch, NO_EPOCH)
        if continues and not is_current:
            if request.producer_epoch != transaction.last_epoch:
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            # a retry: the response with this id and epoch was lost
            return ProducerIdAndEpoch(
                transaction.producer_id, transaction.producer_epoch
            ), transaction.last_epoch
        last_epoch = transaction.producer_epoch if continues else NO_EPOCH
        if transaction.is_epoch_exhausted:
            return ProducerIdAndEpoch(self._state.new_producer_id(), 0), last_epoch
        return ProducerIdAndEpoch(
            transaction.producer_id, transaction.producer_epoch + 1
        ), last_epoch

    # -- partitions -------------------------------------------------------------------------

    def add_partitions(
        self, request: AddPartitions, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """AddPartitionsToTxn; replies with None. ApiError."""
        transaction = self._known(request)
        check_settled(transaction)
        _check_producer(transaction, request)
        if transaction.state is State.ONGOING and transaction.partitions.issuperset(
            request.partitions
        ):
            return Decision(replies=[Reply(future, None)])
        new = with_partitions(transaction, request.partitions, request.version, now_ms)
        record = yield from self._state.record(request.transactional_id, new)
        return Decision([record], [Reply(future, None)])

    def verify(self, request: AddPartitions) -> list[ErrorCode]:
        """For each partition whether it is in the transaction."""
        try:
            transaction = self._known(request)
            _check_producer(transaction, request)
            check_settled(transaction)
        except ApiError as failure:
            return [failure.code] * len(request.partitions)
        return [
            ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        ]

    def has_added(
        self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]
    ) -> bool:
        """`verify` for one partition, as a fast path."""
        transaction = self._state.transactions.get(transactional_id)
        return (
            transaction is not None
            and partition in transaction.partitions
            and producer_id == transaction.producer_id
            and epoch == transaction.producer_epoch
            and transaction.state not in PREPARED
        )

    def _known(self, request: AddPartitions) -> Transaction:
        """The state of an id. ApiError."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self._state.transactions.get(request.transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction


def _check_producer(transaction: Transaction, request: AddPartitions) -> None:
    """ApiError if the request is not from the current producer."""
    if transaction.producer_id != request.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _may_continue(transaction: Transaction, request: InitProducerId) -> bool:
    """Whether the request's producer id, if any, is the current one; or the previous one, which was
    replaced because its epochs were exhausted (KIP-360)."""
    if request.producer_id == NO_PRODUCER_ID or transaction.producer_epoch == NO_EPOCH:
        return True
    if request.producer_id == transaction.producer_id:
        return True
    is_epoch_exhausted = request.producer_epoch >= EPOCH_GIVEN_MAX
    return is_epoch_exhausted and request.producer_id == transaction.previous_producer_id
