"""The shared state of the transaction rules: the ids of one `__transaction_state` partition."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeVar

from kavka.log.journal import Decision, JournalRecord
from kavka.log.timers import Timers
from kavka.txncoord import transaction_records
from kavka.txncoord.settings import TransactionSettings
from kavka.txncoord.transaction import Transaction
from kavka.txncoord.transaction_requests import NeedsProducerId
from kavka.wire.steps import Steps, run_at_once

T = TypeVar("T")


def pausing(work: Steps[T]) -> Generator[Decision, None, T]:
    """Run `work` within a generator of decisions: at each of its pauses yield an empty decision."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        yield Decision()


class TransactionsState:
    """All transactional ids of one partition. Only applied records change it."""

    __slots__ = ("_decided", "fresh_producer_id", "settings", "timers", "transactions")

    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        fresh_producer_id: Callable[[], int | None],
    ) -> None:
        """`fresh_producer_id` returns an unused producer id, or None if none is available."""
        self.transactions: Final[dict[str, Transaction]] = {}
        self.settings: Final = settings
        """The current settings."""
        self.fresh_producer_id: Final = fresh_producer_id
        self.timers: Final = Timers()
        self._decided: tuple[JournalRecord, Transaction] | None = None

    def new_producer_id(self) -> int:
        """An unused producer id. NeedsProducerId."""
        producer_id = self.fresh_producer_id()
        if producer_id is None:
            raise NeedsProducerId
        return producer_id

    def record(self, transactional_id: str, transaction: Transaction) -> Steps[JournalRecord]:
        """The record to append for a transition that was just decided."""
        feature = self.settings().kavka_transaction_version
        record = yield from transaction_records.transaction_record(
            transactional_id, transaction, feature
        )
        self._decided = (record, transaction)
        return record

    def decode_record(self, record: JournalRecord) -> Transaction | None:
        """The transaction in a record; None if it can't be decoded. For the record decided last it
        is the decided one, including fields that the log does not store."""
        decided, self._decided = self._decided, None
        if decided is not None and decided[0] is record:
            return decided[1]
        return (
            None if record.value is None else run_at_once(transaction_records.decode(record.value))
        )
