"""ListTransactions and DescribeTransactions (KIP-664). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import State, Transaction
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

STATE_NAMES: Final = frozenset((*(state.title for state in State), "Dead", "PrepareEpochFence"))
"""Valid state filters. Transactions are never in the last two, which only Apache Kafka has."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def fullmatch(self, text: str) -> object | None:
        """None if the whole text does not match."""
        ...


class Filter(NamedTuple):
    """The filters of ListTransactions; an empty filter matches all."""

    states: Collection[str] = ()
    """Names as in `STATE_NAMES`; an unknown one matches nothing."""

    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    """Minimum running time of the transaction (KIP-994); -1 for all."""

    pattern: Pattern | None = None
    """Of transactional ids (KIP-1152)."""

    def matches(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        """Whether a transactional id passes all filters."""
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states and transaction.state.title not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - transaction.started_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.fullmatch(transactional_id) is not None


class ListedTransaction(NamedTuple):
    """One line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """One transactional id in DescribeTransactions."""

    state: str
    timeout_ms: int
    started_ms: int
    """-1 where there has been no transaction since InitProducerId."""

    producer_id: int
    producer_epoch: int
    topics: Sequence[tuple[str, Sequence[int]]]


def listed(
    state: TransactionsState, ids: Iterable[str], filters: Filter, now_ms: int
) -> list[ListedTransaction]:
    """The existing ones of `ids` that pass the filter."""
    found = (
        (transactional_id, state.transactions.get(transactional_id)) for transactional_id in ids
    )
    return [
        ListedTransaction(transactional_id, transaction.producer_id, transaction.state.title)
        for transactional_id, transaction in found
        if transaction is not None and filters.matches(transactional_id, transaction, now_ms)
    ]


def known(state: TransactionsState, transactional_id: str) -> Transaction:
    """The transaction to describe. ApiError INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return transaction


def described(transaction: Transaction) -> Steps[DescribedTransaction]:
    """The description of a transactional id; in slices, since it may have many partitions."""
    topics = yield from transaction.by_topic()
    return DescribedTransaction(
        transaction.state.title,
        transaction.timeout_ms,
        transaction.started_ms,
        transaction.producer_id,
        transaction.producer_epoch,
        topics,
    )
