"""Stock clients at work while brokers die: what they did, and when it was done.

All are confluent-kafka with its default settings. Each works on a thread of its own.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.clusters import settings

RATE_PER_S: Final = 1000
"""Records that a producer writes."""

VALUE: Final = bytes(100)
PAUSE_S: Final = 0.005
"""Between two commits, and before what failed is tried again."""

READ_AT_ONCE: Final = 500
"""Records that a member of a group takes at most before it commits."""

TRIES_S: Final = 60.0
"""How long one commit may take: then it is tried again."""

FLUSH_S: Final = 60.0
ENDS_WITHIN_S: Final = 120.0


class Done(NamedTuple):
    """Something that a client wanted, and has: times are monotonic ns."""

    began_ns: int
    ended_ns: int
    partition: int = 0


class History:
    """What one client has done, and what it could not do. One thread writes, others may read."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done: list[Done] = []
        self._errors: list[str] = []

    def note(self, done: Done) -> None:
        """It was done."""
        with self._changed:
            self._done.append(done)
            self._changed.notify_all()

    def note_error(self, error: object) -> None:
        """The client has reported an error to its user."""
        with self._changed:
            self._errors.append(str(error))
            self._changed.notify_all()

    @property
    def done(self) -> Sequence[Done]:
        """Until now, in the order of its ends."""
        with self._changed:
            return tuple(self._done)

    @property
    def errors(self) -> Sequence[str]:
        """Until now."""
        with self._changed:
            return tuple(self._errors)

    def first_after(self, began_ns: int, within_s: float) -> Done:
        """Wait for the first that is done of what began then or later; RuntimeError when that takes
        longer than `within_s` from now."""
        deadline_s = time.monotonic() + within_s
        looked_at = 0
        with self._changed:
            while True:
                for operation in self._done[looked_at:]:
                    if operation.began_ns >= began_ns:
                        return operation
                looked_at = len(self._done)
                if not self._changed.wait(deadline_s - time.monotonic()):
                    last = self._errors[-1:] or ["no error"]
                    raise RuntimeError(f"nothing was done within {within_s:.0f} s: {last[0]}")


def longest_gap_ns(done: Iterable[Done]) -> int:
    """The longest time in which nothing was done in a partition in which more was done later."""
    last: dict[int, int] = {}
    longest = 0
    for operation in sorted(done, key=attrgetter("ended_ns")):
        longest = max(
            longest, operation.ended_ns - last.get(operation.partition, operation.ended_ns)
        )
        last[operation.partition] = operation.ended_ns
    return longest


class Client(ABC):
    """A context manager, in which it works. `history` has what it did."""

    def __init__(self, bootstrap: str) -> None:
        self.history = History()
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(ENDS_WITHIN_S)
        if self._failure is not None and error is None:
            raise RuntimeError(f"a client ended: {self._failure!r}") from self._failure
        if self._thread.is_alive() and error is None:
            raise RuntimeError(f"a client does not end within {ENDS_WITHIN_S:.0f} s")

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as failure:
            self._failure = failure
            self.history.note_error(f"the client ended: {failure!r}")

    @abstractmethod
    def work(self) -> None:
        """Work until `_stopping` is set."""


class Producing(Client):
    """Writes at a steady pace, to partition after partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1) -> None:
        super().__init__(bootstrap)
        self._topic = topic
        self._partitions = partitions

    def work(self) -> None:
        producer = Producer(settings(self._bootstrap))
        start_s = time.monotonic()
        index = 0
        while not self._stopping.is_set():
            while (early_s := start_s + index / RATE_PER_S - time.monotonic()) > 0:
                producer.poll(early_s)
            partition = index % self._partitions
            noting = partial(self._delivered, time.monotonic_ns())
            producer.produce(self._topic, VALUE, partition=partition, on_delivery=noting)
            index += 1
        if left := producer.flush(FLUSH_S):
            raise RuntimeError(f"{left} records unanswered")

    def _delivered(self, began_ns: int, error: object, message: Any) -> None:
        if error is not None:
            self.history.note_error(error)
        else:
            self.history.note(Done(began_ns, time.monotonic_ns(), message.partition()))


class Committing(Client):
    """A member of a group that reads what comes and commits, again and again.

    Something should come: librdkafka asks for the coordinator on a connection on which its Fetch
    waits, for half a second if nothing does.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(bootstrap)
        self._topic = topic
        self._group = group

    def work(self) -> None:
        config = {"group.id": self._group, "enable.auto.commit": False}
        consumer = Consumer({**settings(self._bootstrap), **config})
        consumer.subscribe([self._topic])
        offset = 0
        try:
            while not self._stopping.is_set():
                consumer.consume(READ_AT_ONCE, PAUSE_S)
                if not consumer.assignment():
                    continue
                offset += 1
                began_ns = time.monotonic_ns()
                try:
                    place = TopicPartition(self._topic, 0, offset)
                    consumer.commit(offsets=[place], asynchronous=False)
                except KafkaException as failure:
                    self.history.note_error(failure)
                else:
                    self.history.note(Done(began_ns, time.monotonic_ns()))
        finally:
            consumer.close()


class Transacting(Client):
    """Begins a transaction, writes a record, commits, again and again. It retries what the
    client calls retriable, and aborts what the client says is to be aborted; else another producer
    of the same transactional id takes over."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        super().__init__(bootstrap)
        self._topic = topic
        self._id = transactional_id
        self.successors = 0
        """Producers that took over."""

    def work(self) -> None:
        producer = self._new()
        while not self._stopping.wait(PAUSE_S):
            try:
                self._commit_one(producer)
            except KafkaException as failure:
                self.history.note_error(failure)
                producer = self._recover(producer, failure)

    def _commit_one(self, producer: Producer) -> None:
        producer.begin_transaction()
        producer.produce(self._topic, VALUE, partition=0)
        began_ns = time.monotonic_ns()
        self._insist(producer.commit_transaction)
        self.history.note(Done(began_ns, time.monotonic_ns()))

    def _recover(self, producer: Producer, failure: KafkaException) -> Producer:
        """The producer to go on with."""
        if failure.args[0].txn_requires_abort():
            try:
                self._insist(producer.abort_transaction)
                return producer
            except KafkaException as another:
                self.history.note_error(another)
        self.successors += 1
        return self._new()

    def _new(self) -> Producer:
        producer = Producer({**settings(self._bootstrap), "transactional.id": self._id})
        self._insist(producer.init_transactions)
        return producer

    def _insist(self, call: Any) -> None:
        """Call until it is done or has failed for good."""
        while True:
            try:
                call(TRIES_S)
            except KafkaException as failure:
                if not failure.args[0].retriable() or self._stopping.is_set():
                    raise
                self.history.note_error(failure)
                self._stopping.wait(PAUSE_S)
            else:
                return
