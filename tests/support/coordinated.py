"""What a coordinator keeps under a name, written and read past the rules: of groups an offset, of
transactions a transactional id."""

from __future__ import annotations

from typing import Any, Protocol

from kavka.groupcoord import offset_records
from kavka.groupcoord.offset_records import NO_TIME, CommittedOffset
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, JournalRecord, Reply, ReplyFuture
from kavka.server.coordinators.base import Coordinator
from kavka.txncoord.shard import TransactionShard
from kavka.txncoord.transaction import created
from kavka.wire.steps import Steps
from support.memory_broker import MemoryBroker

DONE = "done"


class Kind(Protocol):
    """One coordinator of a broker."""

    topic: str
    name: str

    def of(self, broker: MemoryBroker) -> Coordinator[Any]:
        """It."""
        ...

    def write(self, broker: MemoryBroker, name: str = "g", number: int = 5) -> object:
        """Keep a number; the answer is DONE. ApiError."""
        ...

    def read(self, broker: MemoryBroker, name: str = "g") -> int | None:
        """The number that is kept. ApiError."""
        ...

    def kept(self, shard: Any) -> int:
        """How much is kept in one machine."""
        ...


async def make(broker: MemoryBroker, kind: Kind) -> None:
    """Have the topic made, as clients do."""
    key_type = [OfGroups.name, OfTransactions.name].index(kind.name)
    answer = await broker.ask("FindCoordinator", 6, key_type=key_type, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == 0


class OfGroups:
    topic = "__consumer_offsets"
    name = "groups"

    def of(self, broker: MemoryBroker) -> Coordinator[Any]:
        return broker.parts.groups

    def write(
        self, broker: MemoryBroker, name: str = "g", number: int = 5, topic: str = "t"
    ) -> object:
        key = offset_records.partition_key(offset_records.topic_key(name, topic), 0)
        value = offset_records.encode(
            CommittedOffset(number, -1, "", 0, NO_TIME, offset_records.NO_TOPIC_ID)
        )

        def ask(shard: GroupShard, future: ReplyFuture, now_ms: int) -> Decision:
            return Decision([JournalRecord(key, value)], [Reply(future, DONE)])

        return broker.parts.groups.call(name, ask)

    def read(self, broker: MemoryBroker, name: str = "g", topic: str = "t") -> int | None:
        def look(shard: GroupShard, now_ms: int) -> int | None:
            value = shard.offsets.store.get(name, topic, 0)
            found = None if value is None else offset_records.decode(value)
            return None if found is None else found.offset

        found = broker.parts.groups.read(name, look)
        assert found is None or isinstance(found, int)
        return found

    def kept(self, shard: GroupShard) -> int:
        return shard.offsets.store.count


class OfTransactions:
    topic = "__transaction_state"
    name = "transactions"

    def of(self, broker: MemoryBroker) -> Coordinator[Any]:
        return broker.parts.transactions

    def write(self, broker: MemoryBroker, name: str = "g", number: int = 5) -> object:
        def ask(shard: TransactionShard, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
            record = yield from shard.state.record(name, created(number, 60_000, now_ms))
            return Decision([record], [Reply(future, DONE)])

        return broker.parts.transactions.call(name, ask)

    def read(self, broker: MemoryBroker, name: str = "g") -> int | None:
        def look(shard: TransactionShard, now_ms: int) -> int | None:
            txn = shard.state.transactions.get(name)
            return None if txn is None else txn.producer_id

        found = broker.parts.transactions.read(name, look)
        assert found is None or isinstance(found, int)
        return found

    def kept(self, shard: TransactionShard) -> int:
        return len(shard.state.transactions)
