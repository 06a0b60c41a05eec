"""What the rules of transactions share: the ids of one partition of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeVar

from kavka.log.journal import Decision, Record
from kavka.log.timers import Timers
from kavka.txncoord import records
from kavka.txncoord.requests import NeedsProducerId
from kavka.txncoord.settings import TransactionSettings
from kavka.txncoord.transaction import Transaction
from kavka.wire.steps import Slices, run_to_completion

T = TypeVar("T")


def pausing(work: Slices[T]) -> Generator[Decision, None, T]:
    """The same where decisions are yielded: each pause is one, in which nothing is decided."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        yield Decision()


class TransactionsState:
    """All transactional ids of one partition. Records applied change it, and nothing else does."""

    __slots__ = ("_decided", "fresh_producer_id", "settings", "timers", "transactions")

    def __init__(
        self,
        settings: Callable[[], TransactionSettings],
        fresh_producer_id: Callable[[], int | None],
    ) -> None:
        """`fresh_producer_id` yields one that nobody has had, or None if there is none at hand."""
        self.transactions: Final[dict[str, Transaction]] = {}
        self.settings: Final = settings
        """What is in force now."""
        self.fresh_producer_id: Final = fresh_producer_id
        self.timers: Final = Timers()
        self._decided: tuple[Record, Transaction] | None = None

    def new_producer_id(self) -> int:
        """One that nobody has had. NeedsProducerId."""
        producer_id = self.fresh_producer_id()
        if producer_id is None:
            raise NeedsProducerId
        return producer_id

    def record(self, transactional_id: str, one: Transaction) -> Slices[Record]:
        """What is to be appended for a move that was decided just now."""
        feature = self.settings().kavka_transaction_version
        record = yield from records.transaction_record(transactional_id, one, feature)
        self._decided = (record, one)
        return record

    def decode_record(self, record: Record) -> Transaction | None:
        """What a record says; None if it can't be read. Of the one decided last it is known, with
        what the log does not keep."""
        decided, self._decided = self._decided, None
        if decided is not None and decided[0] is record:
            return decided[1]
        return None if record.value is None else run_to_completion(records.decode(record.value))
