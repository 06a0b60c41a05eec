"""Who moves money between accounts in transactions, and who watches its sum, all the while.

What must be true of it is in `money`. The one who moves it knows what is on the accounts by reading
what is committed, each time that its producer has to be replaced.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cluster_faults.cluster import WITHIN_S, FaultyCluster
from cluster_faults.money import (
    ACCOUNTS,
    OPENED_WITH,
    PARTITIONS,
    Entry,
    Ledger,
    broken_promises,
)
from sim.history import ABORTED, COMMITTED, UNKNOWN
from support.clients.kafka_python import create_topic
from support.transactions import judge, readers
from support.wait import eventually

MONEY = "money"
TRANSACTIONAL_ID = "transfers"
SHARE = 0.2
"""Transfers a second, as a share of the records of other producers."""

ABORTED_EVERY = 10
AMOUNT_MAX = 20
CALL_S = 5.0
GIVE_UP_S = 45.0
"""How long a call to the producer is tried again before the producer is replaced."""

POLL_S = 0.1
RECORDS_MAX = 1000
NOTHING: Final = dict.fromkeys(range(ACCOUNTS, ACCOUNTS + PARTITIONS), 0)
"""What a producer moves first."""


class CommittedReader:
    """Reads what is committed, from its beginning."""

    def __init__(self, bootstrap: str) -> None:
        self.ledger = Ledger()
        self.got: readers.Got = {at: [] for at in range(PARTITIONS)}
        self.count = 0
        self._consumer = readers.consumer(bootstrap, MONEY, PARTITIONS, "read_committed")

    def read_on(self) -> None:
        """Some more."""
        for message in self._consumer.consume(RECORDS_MAX, POLL_S):
            if message.error() is None:
                at, offset, value = message.partition(), message.offset(), message.value()
                self.ledger.take(at, offset, value)
                self.got[at].append((offset, value))
                self.count += 1

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


class Watching(threading.Thread):
    """Looks at one snapshot of what is committed after the other."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="snapshots of money", daemon=True)
        self.snapshots = 0
        self.reader = CommittedReader(bootstrap)
        self._stopping = threading.Event()

    def run(self) -> None:
        ledger = self.reader.ledger
        while not self._stopping.is_set():
            self.reader.read_on()
            if ledger.whole > ledger.settled:
                ledger.settle(ledger.whole)
                self.snapshots += 1
        self.reader.close()

    def finish(self) -> None:
        """Take no more."""
        self._stopping.set()
        self.join(WITHIN_S)
        assert not self.is_alive(), "the snapshots do not end"


class Transferring(threading.Thread):
    """Makes transfers, with one transactional producer after the other."""

    def __init__(self, bootstrap: str, rate: float) -> None:
        super().__init__(name="transfers", daemon=True)
        self.outcomes: dict[int, str] = {}
        self.ended: list[str] = []
        """Why a producer was replaced."""
        self.committed = 0
        """Entries, not transfers."""
        self._brokers = bootstrap
        self._pause_s = 1 / rate
        self._numbers = count(1)
        self._chance = random.Random(TRANSACTIONAL_ID)
        self._stopping = threading.Event()
        self._failures: list[KafkaError] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._live()
            except KafkaException as error:
                self.ended.append(f"transfers: {error}")

    def _live(self) -> None:
        """With one producer. Its first act ends what another has begun."""
        producer = Producer(
            {
                "bootstrap.servers": self._brokers,
                "client.id": self.name,
                "transactional.id": TRANSACTIONAL_ID,
                "log_level": 0,
            }
        )
        try:
            self._patiently(producer.init_transactions, CALL_S)
            self._failures.clear()
            balances = self._read(up_to=self._transfer(producer, NOTHING, {}))
            while not self._stopping.wait(self._pause_s):
                self._transfer(producer, self._changes(balances), balances)
        finally:
            producer.purge()

    def _read(self, *, up_to: int) -> dict[int, int]:
        """What is on the accounts when a transfer of nothing is committed."""
        until = time.monotonic() + GIVE_UP_S
        reader = CommittedReader(self._brokers)
        while not (reader.ledger.has_begun(up_to) or self._stopping.is_set()):
            reader.read_on()
            if time.monotonic() > until:
                raise timed_out("what is committed is not read")
        reader.close()
        return {
            account: balance
            for account, balance in reader.ledger.balances.items()
            if account < ACCOUNTS
        }

    def _transfer(
        self, producer: Producer, changes: Mapping[int, int], balances: dict[int, int]
    ) -> int:
        """Make one, and change the balances with it if it is committed; its number."""
        number = next(self._numbers)
        self.outcomes[number] = ABORTED
        producer.begin_transaction()
        for account, amount in changes.items():
            after = balances.get(account, 0) + amount
            entry = Entry(number, len(changes), account, amount, after)
            at = account % PARTITIONS
            producer.produce(MONEY, entry.value(), partition=at, on_delivery=self._delivered)
        if number % ABORTED_EVERY == 0 and changes is not NOTHING:
            self._flush(producer)
            self._patiently(producer.abort_transaction, CALL_S)
            return number
        self.outcomes[number] = UNKNOWN
        self._patiently(producer.commit_transaction, CALL_S)
        self.outcomes[number] = COMMITTED
        self.committed += len(changes)
        for account, amount in changes.items():
            balances[account] = balances.get(account, 0) + amount
        return number

    def _changes(self, balances: dict[int, int]) -> dict[int, int]:
        """What a transfer moves, by account; the first opens them."""
        if not balances:
            return dict.fromkeys(range(ACCOUNTS), OPENED_WITH)
        source, target = self._chance.sample(range(ACCOUNTS), 2)
        amount = self._chance.randint(1, AMOUNT_MAX)
        return {source: -amount, target: amount}

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def _flush(self, producer: Producer) -> None:
        """Until all lies in the logs, so that there is something to abort."""
        until = time.monotonic() + GIVE_UP_S
        while len(producer):  # librdkafka's own flush, once fenced, ends in a SystemError
            producer.poll(POLL_S)
            if time.monotonic() > until:
                raise timed_out("nothing is delivered")
        if self._failures:
            raise KafkaException(self._failures[0])

    def _patiently(self, call: Callable[..., Any], *arguments: object) -> None:
        """Call until it is done, as long as the client says that another try may help."""
        until = time.monotonic() + GIVE_UP_S
        while True:
            try:
                call(*arguments)
            except KafkaException as raised:
                if not raised.args[0].retriable() or time.monotonic() > until:
                    raise
            else:
                return

    def finish(self) -> None:
        """Returns when the last transfer has ended."""
        self._stopping.set()
        self.join(WITHIN_S)
        assert not self.is_alive(), "the transfers do not end"


def timed_out(why: str) -> KafkaException:
    """As the client raises it."""
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, why))


class Transfers:
    """One who moves money, and one who watches."""

    def __init__(self, cluster: FaultyCluster, rate: float) -> None:
        self._bootstrap = cluster.bootstrap
        create_topic(self._bootstrap, MONEY, PARTITIONS, replicas=3)
        self._watching = Watching(self._bootstrap)
        self._transferring = Transferring(self._bootstrap, rate * SHARE)
        for thread in (self._transferring, self._watching):
            thread.start()

    @property
    def ended(self) -> list[str]:
        """Why producers were replaced."""
        return self._transferring.ended

    def counts(self) -> dict[str, int]:
        """How many entries were committed, and read in snapshots."""
        return {"transferred": self._transferring.committed, "watched": self._watching.reader.count}

    def finish(self) -> list[str]:
        """All transfers have ended, and are read once more by two clients; what is violated."""
        self._transferring.finish()
        ends = readers.await_stable(self._bootstrap, MONEY, PARTITIONS, WITHIN_S)
        visible = readers.read_all(self._bootstrap, MONEY, PARTITIONS, "read_committed")
        others = readers.read_by_kafka_python(self._bootstrap, MONEY, ends)
        watched = self._watching.reader
        eventually(
            lambda: watched.count >= sum(map(len, visible.values())),
            within_s=WITHIN_S,
            what="the snapshots have everything",
        )
        self._watching.finish()
        ledger = watched.ledger
        ledger.settle(ledger.last)
        outcomes = self._transferring.outcomes
        found = [*ledger.violations, *broken_promises(ledger.given, outcomes)]
        found += judge.differing(visible, watched.got, "money read in the end, and live")
        found += judge.differing(visible, others, "money read by two clients")
        print(f"money: {len(outcomes)} transfers, {self._watching.snapshots} snapshots")
        return found

    def close(self) -> None:
        """End all in any way."""
        self._transferring.finish()
        self._watching.finish()
