"""Transactions without a broker: the machine of one partition under a journal, and a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kavka.txncoord import records
from kavka.txncoord.requests import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    ProducerIdAndEpoch,
    ReserveProducerIds,
    WriteMarkers,
)
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import Transaction
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.journal_kit import JournalKit

TIMEOUT_MS = 60_000
FIRST_ID = 4_000


@dataclass
class Settings:
    """`kavka.txncoord.settings.TransactionSettings`, with Apache Kafka's defaults."""

    kavka_transaction_version: int = 2
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000


class TransactionKit(JournalKit[TransactionShard]):
    """The transactional ids of one partition. Whoever asks gets the answer, or the ticket of one
    that is still to come."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.is_dry = False
        """Whether there are no fresh producer ids at hand."""
        self.fresh_id = FIRST_ID
        super().__init__()
        self.begin()

    def take_id(self) -> int | None:
        """A fresh producer id."""
        if self.is_dry:
            return None
        self.fresh_id += 1
        return self.fresh_id - 1

    def new_shard(self) -> TransactionShard:
        return TransactionShard(TransactionsState(lambda: self.settings, self.take_id))

    @property
    def commands(self) -> list[WriteMarkers]:
        """The markers that are asked for and not written yet."""
        return [one for one in self.journal.commands if isinstance(one, WriteMarkers)]

    @property
    def reservations(self) -> int:
        """How often fresh producer ids have been asked for by the machine itself."""
        return sum(isinstance(one, ReserveProducerIds) for one in self.journal.commands)

    def put(self, transactional_id: str, one: Transaction) -> None:
        """Become the coordinator of a log that says this last."""
        feature = self.settings.kavka_transaction_version
        record = run_at_once(records.transaction_record(transactional_id, one, feature))
        self.port.batches.append(((record,), None))
        self.port.end += 1
        self.move()

    def state(self, transactional_id: str = "x") -> Transaction:
        """What is known of an id."""
        return self.shard.state.transactions[transactional_id]

    # -- requests

    def init(
        self,
        transactional_id: str = "x",
        producer: ProducerIdAndEpoch | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Any:
        """InitProducerId, perhaps of a producer that goes on."""
        request = InitProducerId(transactional_id, timeout_ms, *(producer or ()))
        return self.answer(lambda *asked: self.shard.init_producer_id(request, *asked))

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: tuple[str, int],
        transactional_id: str = "x",
        version: int = 2,
    ) -> Any:
        """Add partitions to a transaction; ("t", 0) if none is named."""
        request = AddPartitions(
            transactional_id, *producer, partitions or (("t", 0),), version=version
        )
        return self.answer(lambda *asked: self.shard.add_partitions(request, *asked))

    def verify(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: tuple[str, int],
        transactional_id: str = "x",
    ) -> list[ErrorCode]:
        """Whether partitions are in the transaction; asked one by one it must be the same."""
        codes = self.shard.verify(AddPartitions(transactional_id, *producer, partitions))
        for partition, code in zip(partitions, codes, strict=True):
            added = self.shard.has_added(transactional_id, *producer, partition)
            assert added == (code is ErrorCode.NONE)
        return codes

    def end(
        self,
        producer: ProducerIdAndEpoch,
        *,
        committed: bool = True,
        transactional_id: str = "x",
        version: int = 2,
    ) -> Any:
        """EndTxn."""
        request = EndTxn(transactional_id, *producer, committed, version)
        return self.answer(lambda *asked: self.shard.end(request, *asked))

    def mark(self, markers: WriteMarkers | None = None) -> Any:
        """Markers are written: these, or the ones that were asked for first."""
        written = self.commands[0] if markers is None else markers
        others = [one for one in self.journal.commands if one is not written]
        self.journal.commands.clear()
        self.journal.commands.extend(others)
        return self.answer(lambda *asked: self.shard.markers_written(written, *asked))

    def transact(
        self, producer: ProducerIdAndEpoch, *, committed: bool = True, version: int = 2
    ) -> ProducerIdAndEpoch:
        """A whole transaction of ("t", 0), and who the producer is afterwards."""
        self.add(producer, version=version)
        after: ProducerIdAndEpoch = self.end(producer, committed=committed, version=version)
        self.mark()
        return after if version >= 2 else producer
