"""Writes to the target, in transactions.

A writer serves until the first thing that goes wrong: then another one is made, which ends what the
one before has left open. It also has a new epoch: after an abort librdkafka may use sequence
numbers again that the broker knows (docs/transactions.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.mirror.clusters import CLIENT_ID
from kavka.tools.mirror.failures import Again, Fenced, Stuck, may_last
from kavka.tools.mirror.ledger import Entry
from kavka.tools.perf.client import error_text, library, now_ms, producer

POLL_S: Final = 0.1
CALL_S: Final = 1.0
"""A call to librdkafka does not end earlier for Ctrl-C."""

REASON_MS: Final = 1_000
ABORT_S: Final = 5.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
REQUEST_BYTES_MAX: Final = 1_000_000_000
"""What librdkafka allows: the target decides how large a record may be."""

FENCED: Final = ("_FATAL", "_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
"""A call after a fatal error says _FATAL, whatever it was."""

ENDED: Final = ("_STATE", "INVALID_TXN_STATE")
"""There is no transaction to abort: librdkafka, or the broker, had not begun it or has ended it."""

TOO_LARGE: Final = "MSG_SIZE_TOO_LARGE"
SMALLER: Final = (
    "give the topic a larger max.message.bytes in the target (it stays so), or the mirror another "
    "compression.type (in --target-config), as records are compressed anew, by lz4 if it has none"
)
INVALID: Final = "INVALID_RECORD"
WITHOUT_KEY: Final = (
    "it has no key, and a compacted topic takes no such record: leave the topic out, or set "
    "cleanup.policy=delete and retention.ms=-1 for it in the source until the record is copied"
)
LASTING: Final = (
    "leave the topic out, or see what the log of the target's brokers says. Kavka's refuse so what "
    "unpacks to more than 64 MiB in a topic that is compacted or has a compression.type: without "
    "these settings in the source (cleanup.policy=delete and retention.ms=-1) they take it"
)
HOPELESS: Final = (
    INVALID,
    "INVALID_TIMESTAMP",
    TOO_LARGE,
    "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
"""Trying again gives the same."""


CONFIGURED: Final = (INVALID, TOO_LARGE)
CONFIGURED_TRIES: Final = 2
"""Of what the topic's configs decide: they may have changed in the source, and follow at the next
look."""

RECORD_BYTES: Final = 100
"""Of a record, at most, beside what it holds: numbers, and its share of the batch's header."""


class Refusal(NamedTuple):
    """A record that was not written."""

    error: Any
    place: Place
    offset: int | None
    """In the source; None: it is one of the ledger's."""

    has_key: bool


class Writer:
    """One producer. Failed, Again."""

    def __init__(self, properties: Mapping[str, str], transactional_id: str) -> None:
        """Ends the transaction of the writer before, and waits for that end."""
        self._fatal: Any = None
        """What ended the producer; what it says from then on is only that it is ended."""

        self._client = producer(
            {
                "compression.type": "lz4",
                "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
                "message.max.bytes": str(REQUEST_BYTES_MAX),
                **COMMON,
                **properties,
                "transactional.id": transactional_id,
            }
        )
        self._is_open = False
        self._refusals: list[Refusal] = []
        self._sources: defaultdict[Place, list[int]] = defaultdict(list)
        self._targets: defaultdict[Place, list[int]] = defaultdict(list)
        self.records = 0
        """Of the open transaction."""

        self.limits: Mapping[str, int] = {}
        """How many bytes a batch may have in topics that take no usual one."""

        self.epochs: dict[Place, int | None] = {}
        """The source's leader epoch of the last record of each partition, where it is known."""

        self._bytes: defaultdict[Place, int] = defaultdict(int)
        """Of records of such topics that may be under way, at most."""

        self._patiently(self._client.init_transactions)

    def send(self, message: Any) -> None:
        """A record of the source."""
        time_ms = message.timestamp()[1]
        topic, partition = message.topic(), message.partition()
        if topic in self.limits:
            self._await_room((topic, partition), message)
        self._produce(
            topic,
            message.value(),
            message.key(),
            partition=partition,
            timestamp=time_ms or 1,  # librdkafka takes 0 for "now"
            headers=_headers(message),
            on_delivery=partial(self._delivered, message.offset()),
        )
        self._sources[topic, partition].append(message.offset())
        self.epochs[topic, partition] = message.leader_epoch()
        self.records += 1

    def _await_room(self, place: Place, message: Any) -> None:
        """Wait until a record fits one batch with those of its partition that are under way:
        librdkafka's limit is one for all topics, and it does not split what is refused."""
        headers = _headers(message) or ()
        size = RECORD_BYTES + len(message) + len(message.key() or b"")
        size += sum(len(name.encode()) + len(value or b"") for name, value in headers)
        if self._bytes[place] and self._bytes[place] + size > self.limits[place[0]]:
            self._await_acknowledgements()
        self._bytes[place] += size

    def _await_acknowledgements(self) -> None:
        """Of all records; not of those behind one that was refused, which only time out."""
        while len(self._client) and not self._refusals:
            self._poll(POLL_S)  # the client's own flush, once fenced, ends in a SystemError
        self._check()
        self._bytes.clear()

    def write(self, topic: str, entries: Iterable[Entry]) -> None:
        """Records of the ledger."""
        for key, value in entries:
            self._produce(topic, value, key, partition=0, on_delivery=self._noted)

    def delivered(self) -> dict[Place, tuple[Sequence[int], Sequence[int]]]:
        """The offsets of what was sent since the last call, in the source and in the target."""
        self._await_acknowledgements()
        found: dict[Place, tuple[Sequence[int], Sequence[int]]]
        found = {place: (some, self._targets[place]) for place, some in self._sources.items()}
        for place, (sources, targets) in found.items():
            if len(sources) != len(targets):
                raise Again(f"{place[0]}-{place[1]}: the target did not give every record's offset")
        self._sources, self._targets = defaultdict(list), defaultdict(list)
        self.records = 0
        return found

    def commit(self) -> None:
        """End the transaction; if there is one."""
        if not self._is_open:
            return
        self._patiently(self._client.commit_transaction)
        self._check()
        self._is_open = False

    def abort(self) -> None:
        """End the transaction, as if it had not been, and let the producer go. Again if it can't be
        ended now: then its end is the next writer's, or the broker's when its time is over."""
        self._client.purge()
        if self._is_open and self._fatal is None:
            self._is_open = False
            self._judge(self._abort)

    def _abort(self) -> None:
        try:
            self._client.abort_transaction(ABORT_S)
        except library().KafkaException as raised:
            if raised.args[0].name() not in ENDED:
                raise

    def _produce(self, *arguments: Any, **more: Any) -> None:
        if not self._is_open:
            self._judge(self._client.begin_transaction)
            self._is_open = True
        while True:
            try:
                self._client.produce(*arguments, **more)
            except BufferError:
                self._poll(POLL_S)
                self._check()
            except library().KafkaException as raised:
                self._await_reason()
                raise self._judged(raised.args[0]) from raised
            else:
                self._poll(0)
                return

    def _await_reason(self) -> None:
        """librdkafka takes no more, once it knows that a record was refused, perhaps before it says
        of that: give it the time. Raises what it says."""
        end_ms = now_ms() + REASON_MS
        while not self._refusals and self._fatal is None and now_ms() < end_ms:
            self._poll(POLL_S)
        self._check()

    def _poll(self, timeout_s: float) -> None:
        """Have callbacks called. A fatal error is raised here, once, by its name."""
        try:
            self._client.poll(timeout_s)
        except library().KafkaException as raised:
            self._fatal = raised.args[0]

    def _judge(self, call: Callable[[], None]) -> None:
        """What the client raises, as Again or Failed."""
        try:
            call()
        except library().KafkaException as raised:
            raise self._judged(raised.args[0]) from raised

    def _judged(self, error: Any) -> Exception:
        if error.fatal() and self._fatal is not None:
            error = self._fatal
        if error.name() in HOPELESS:
            return Failed(f"the target refuses it: {error_text(error)}")
        return (Fenced if error.name() in FENCED else Again)(error_text(error))

    def _delivered(self, source: int, error: Any, message: Any) -> None:
        if error is not None:
            self._refused(error, message, source)
        elif (offset := message.offset()) is not None:
            self._targets[message.topic(), message.partition()].append(offset)
        # else the response was lost, and that of a later batch says only that this one was written:
        # `delivered` misses the offset

    def _noted(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused(error, message, None)

    def _refused(self, error: Any, message: Any, source: int | None) -> None:
        place = message.topic(), message.partition()
        self._refusals.append(Refusal(error, place, source, message.key() is not None))

    def _check(self) -> None:
        if self._fatal is not None:
            raise self._judged(self._fatal)
        for one in self._refusals:
            if one.error.name() in CONFIGURED:
                raise Stuck(one.place, *self._sentence(one), tries_max=CONFIGURED_TRIES)
            if one.error.name() in HOPELESS:
                raise Failed(_because(*self._sentence(one)))
        for one in self._refusals:
            if one.error.name() not in FENCED and may_last(one.error):
                raise Stuck(one.place, *self._sentence(one))
        if self._refusals:
            raise self._judged(self._refusals[0].error)

    def _sentence(self, first: Refusal) -> tuple[str, str]:
        """Which records the target refuses, and what may be done. It refuses whole batches, so that
        the one that it means is not always known."""
        name, where = first.error.name(), f"{first.place[0]}-{first.place[1]}"
        same = [
            one for one in self._refusals if one.place == first.place and one.error.name() == name
        ]
        keyless = [one for one in same if not one.has_key] if name == INVALID else []
        if first.offset is None:
            which = f"a record of {where}"
        elif keyless or len(same) == 1:
            which = f"the record of {where} at offset {(*keyless, first)[0].offset} of the source"
        else:
            which = f"one of the records of {where} at offsets {first.offset} to {same[-1].offset} "
            which += "of the source"
        remedies = {TOO_LARGE: SMALLER, INVALID: WITHOUT_KEY if keyless else ""}
        said = f"the target refuses {which}: {error_text(first.error)}"
        return said, remedies.get(name, "" if name in HOPELESS else LASTING)

    def _patiently(self, call: Callable[[float], None]) -> None:
        """Again and again, as long as librdkafka says that another try may help."""
        while True:
            try:
                call(CALL_S)
            except library().KafkaException as raised:
                if not raised.args[0].retriable():
                    self._check()
                    raise self._judged(raised.args[0]) from raised
            else:
                return


def _because(said: str, remedy: str) -> str:
    return f"{said}; {remedy}" if remedy else said


def _headers(message: Any) -> Any:
    """A record's. Failed if it can't be copied."""
    try:
        return message.headers()
    except (SystemError, UnicodeDecodeError) as failure:  # the first is confluent-kafka's
        raise Failed(
            f"the record of {message.topic()}-{message.partition()} at offset {message.offset()} "
            "has a header whose key is not UTF-8, which confluent-kafka can't read: leave its "
            "topic out"
        ) from failure


COMMON: Final = {
    "client.id": CLIENT_ID,
    "log_level": "0",
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.max.ms": "1000",
}
"""Of both clients; why the last two: docs/transactions.md, and librdkafka doubles its wait for the
next try to connect each time, up to 10 s by default."""
