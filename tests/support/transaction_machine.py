"""Transactions without a broker: the machine of one partition under a journal, and a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kavka.txncoord import transaction_records
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import Transaction
from kavka.txncoord.transaction_requests import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    ProducerIdAndEpoch,
    ReserveProducerIds,
    WriteMarkers,
)
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
    """The transactional ids of one partition. Requests return the response, or the future of a
    pending one."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.is_dry = False
        """Whether no producer ids are available."""
        self.fresh_id = FIRST_ID
        super().__init__()
        self.begin()

    def take_id(self) -> int | None:
        """A new producer id, if there is one."""
        if self.is_dry:
            return None
        self.fresh_id += 1
        return self.fresh_id - 1

    def new_shard(self) -> TransactionShard:
        return TransactionShard(TransactionsState(lambda: self.settings, self.take_id))

    @property
    def commands(self) -> list[WriteMarkers]:
        """The markers that are requested and not reported as written."""
        return [command for command in self.journal.commands if isinstance(command, WriteMarkers)]

    @property
    def reservations(self) -> int:
        """How often the machine has requested producer ids."""
        return sum(isinstance(command, ReserveProducerIds) for command in self.journal.commands)

    def put(self, transactional_id: str, txn: Transaction) -> None:
        """Become the coordinator again after another broker has written this."""
        feature = self.settings.kavka_transaction_version
        record = run_at_once(transaction_records.transaction_record(transactional_id, txn, feature))
        self.port.batches.append(((record,), None))
        self.port.end += 1
        self.move()

    def state(self, transactional_id: str = "x") -> Transaction:
        """The state of an id."""
        return self.shard.state.transactions[transactional_id]

    # -- requests

    def init(
        self,
        transactional_id: str = "x",
        producer: ProducerIdAndEpoch | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Any:
        """InitProducerId, perhaps of a producer that continues (KIP-360)."""
        request = InitProducerId(transactional_id, timeout_ms, *(producer or ()))
        return self.answer(lambda *args: self.shard.init_producer_id(request, *args))

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: tuple[str, int],
        transactional_id: str = "x",
        version: int = 2,
    ) -> Any:
        """AddPartitionsToTxn."""
        request = AddPartitions(transactional_id, *producer, partitions, version=version)
        return self.answer(lambda *args: self.shard.add_partitions(request, *args))

    def verify(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: tuple[str, int],
        transactional_id: str = "x",
    ) -> list[ErrorCode]:
        """AddPartitionsToTxn that only verifies; `has_added` must give the same for each."""
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
        return self.answer(lambda *args: self.shard.end(request, *args))

    def mark(self, markers: WriteMarkers | None = None) -> Any:
        """Markers are written: these, or the ones that were requested first."""
        written = self.commands[0] if markers is None else markers
        others = [command for command in self.journal.commands if command is not written]
        self.journal.commands.clear()
        self.journal.commands.extend(others)
        return self.answer(lambda *args: self.shard.markers_written(written, *args))
