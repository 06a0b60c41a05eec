"""Transactions without a broker: the machine of one partition under a journal, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from kavka.log.journal import Journal, Made, Record, Ticket
from kavka.txncoord import records
from kavka.txncoord.requests import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    Markers,
    Producer,
    ReserveProducerIds,
)
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.state import TransactionsState
from kavka.txncoord.transaction import Transaction
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import without_pauses
from support.classic_groups import CountedTicket
from support.toy_machine import ToyPort

START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
COMMIT_MS = 5_000
FIRST_ID = 4_000


@dataclass
class Settings:
    """`kavka.txncoord.settings.TransactionSettings`, with Apache Kafka's defaults."""

    kavka_transaction_version: int = 2
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 604_800_000


class TransactionKit:
    """The transactional ids of one partition. What is appended is committed at once, unless
    `holds`; whoever asks gets the answer, or the ticket of one that is still to come."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(**settings)
        self.now_ms = START_MS
        self.port = ToyPort()
        self.holds = False
        self.is_dry = False
        """Whether there are no fresh producer ids at hand."""
        self.fresh_id = FIRST_ID
        self.commands: list[Markers] = []
        self.reservations = 0
        """How often fresh producer ids have been asked for by the machine itself."""
        self.begin()

    def take_id(self) -> int | None:
        """A fresh producer id."""
        if self.is_dry:
            return None
        self.fresh_id += 1
        return self.fresh_id - 1

    def new_shard(self) -> TransactionShard:
        """A machine that knows nothing yet."""
        return TransactionShard(TransactionsState(lambda: self.settings, self.take_id))

    def begin(self) -> None:
        """Become the coordinator: what is in the log is all that is known."""
        self.shard = self.new_shard()
        self.replay(self.shard)
        self.journal = Journal(
            self.shard, self.port, applied_end=self.port.end, commit_timeout_ms=COMMIT_MS
        )
        self.commands.clear()
        for decision in self.shard.loaded(self.now_ms):
            self.journal.carry_out(decision, self.now_ms)
        self._after()

    def replay(self, shard: TransactionShard) -> None:
        """Give a machine all records."""
        appended = self.appended
        shard.replay([one.key for one in appended], [one.value for one in appended])

    def move(self, *, lost: bool = False) -> None:
        """Another broker is the coordinator now; perhaps one that does not have what was not
        committed."""
        self.journal.resign(ErrorCode.NOT_COORDINATOR)
        if lost:
            while self.port.end > self.port.high_watermark:
                self.port.end -= len(self.port.batches.pop()[0])
        self.port.high_watermark = self.port.end
        self.begin()

    def put(self, transactional_id: str, one: Transaction) -> None:
        """Become the coordinator of a log that says this last."""
        feature = self.settings.kavka_transaction_version
        record = without_pauses(records.transaction_record(transactional_id, one, feature))
        self.port.batches.append(((record,), None))
        self.port.end += 1
        self.move()

    @property
    def appended(self) -> list[Record]:
        """All records of the log."""
        return [record for records, _ in self.port.batches for record in records]

    def state(self, transactional_id: str = "x") -> Transaction:
        """What is known of an id."""
        return self.shard.state.transactions[transactional_id]

    # -- requests

    def ask(self, decide: Callable[[Ticket, int], Made]) -> Any:
        """Any request. ApiError."""
        ticket = CountedTicket()
        self.journal.carry_out(decide(ticket, self.now_ms), self.now_ms)
        if not self.holds:
            self.commit()
        self._after()
        if ticket.failure is not None:
            raise ticket.failure
        return ticket.answer if ticket.settled else ticket

    def init(
        self,
        transactional_id: str = "x",
        producer: Producer | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Any:
        """InitProducerId, perhaps of a producer that goes on."""
        request = InitProducerId(transactional_id, timeout_ms, *(producer or ()))
        return self.ask(lambda *asked: self.shard.init_producer_id(request, *asked))

    def add(
        self,
        producer: Producer,
        *partitions: tuple[str, int],
        transactional_id: str = "x",
        version: int = 2,
    ) -> Any:
        """Add partitions to a transaction; ("t", 0) if none is named."""
        request = AddPartitions(
            transactional_id, *producer, partitions or (("t", 0),), version=version
        )
        return self.ask(lambda *asked: self.shard.add_partitions(request, *asked))

    def verify(
        self, producer: Producer, *partitions: tuple[str, int], transactional_id: str = "x"
    ) -> list[ErrorCode]:
        """Whether partitions are in the transaction."""
        return self.shard.verify(AddPartitions(transactional_id, *producer, partitions))

    def end(
        self,
        producer: Producer,
        *,
        committed: bool = True,
        transactional_id: str = "x",
        version: int = 2,
    ) -> Any:
        """EndTxn."""
        request = EndTxn(transactional_id, *producer, committed, version)
        return self.ask(lambda *asked: self.shard.end(request, *asked))

    def mark(self, markers: Markers | None = None) -> Any:
        """Markers are written: these, or the ones that were asked for first."""
        written = self.commands[0] if markers is None else markers
        self.commands = [one for one in self.commands if one is not written]
        return self.ask(lambda *asked: self.shard.markers_written(written, *asked))

    def transact(self, producer: Producer, *, committed: bool = True, version: int = 2) -> Producer:
        """A whole transaction of ("t", 0), and who the producer is afterwards."""
        self.add(producer, version=version)
        after: Producer = self.end(producer, committed=committed, version=version)
        self.mark()
        return after if version >= 2 else producer

    # -- time and the partition

    def advance(self, by_ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end_ms = self.now_ms + by_ms
        while True:
            at_ms = self.journal.wake_at()
            if at_ms is None or at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            while self.journal.tick(self.now_ms):
                if not self.holds:
                    self.commit()
                self._after()
        self.now_ms = end_ms

    def commit(self) -> None:
        """All that was appended is committed."""
        self.port.high_watermark = self.port.end
        self.journal.committed()
        self._after()

    def _after(self) -> None:
        self._take(self.journal.commands)
        self.journal.commands.clear()

    def _take(self, commands: Iterable[Hashable]) -> None:
        for command in commands:
            if isinstance(command, ReserveProducerIds):
                self.reservations += 1
            else:
                assert isinstance(command, Markers)
                self.commands.append(command)


def refusal(ask: Callable[..., Any], *args: Any, **options: Any) -> ErrorCode:
    """What a request is refused with."""
    try:
        answer = ask(*args, **options)
    except ApiError as failure:
        return failure.code
    raise AssertionError(f"it was not refused, but answered with {answer}")
