"""Writes to the target, in transactions.

A writer serves until the first thing that goes wrong: then another one is made, which ends what the
one before has left open. It also has a new epoch: after an abort librdkafka may use sequence
numbers again that the broker knows (docs/transactions.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.admin.options import is_whole
from kavka.tools.mirror.clusters import CLIENT_ID
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import Entry
from kavka.tools.mirror.pace import Pace
from kavka.tools.mirror.refusals import Refusal, judged, judged_refusals
from kavka.tools.mirror.report import Report, Silence
from kavka.tools.mirror.unsent import Unsent
from kavka.tools.perf.client import library, now_ms, producer

POLL_S: Final = 0.1
CALL_S: Final = 1.0
"""A call to librdkafka does not end earlier for Ctrl-C."""

NOW: Final = 0
"""librdkafka takes this time for the present one."""

REASON_MS: Final = 1_000
ABORT_S: Final = 5.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
TIMEOUT: Final = "transaction.timeout.ms"
DELIVERY_TIMEOUT: Final = "delivery.timeout.ms"
DELIVERY_MS_MIN: Final = 1_000
"""Less is no time for a record; librdkafka takes no shorter time for a transaction, either."""

LINGER: Final = "linger.ms"
LIBRARY_S: Final = {"message.timeout.ms": DELIVERY_TIMEOUT, "queue.buffering.max.ms": LINGER}
"""librdkafka's own names, under which it would take what is refused here."""

REQUEST_BYTES_MAX: Final = 1_000_000_000
"""What librdkafka allows: the target decides how large a record may be."""

ENDED: Final = ("_STATE", "INVALID_TXN_STATE")
"""There is no transaction to abort: librdkafka, or the broker, had not begun it or has ended it."""


class Writer:
    """One producer. Failed, Again."""

    def __init__(
        self, properties: Mapping[str, str], transactional_id: str, report: Report
    ) -> None:
        """Ends the transaction of the writer before, and waits for that end."""
        self._report = report
        self._fatal: Any = None
        """What ended the producer; what it says from then on is only that it is ended."""

        self._client = producer(
            {
                "compression.type": "lz4",
                TIMEOUT: str(TRANSACTION_TIMEOUT_MS),
                "message.max.bytes": str(REQUEST_BYTES_MAX),
                **COMMON,
                **properties,
                **_delivered_within(properties),
                "transactional.id": transactional_id,
            },
            unknown=report.without_effect,
        )
        self._is_open = False
        self._refusals: list[Refusal] = []
        self._sources: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self._targets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self.records = 0
        """Of the open transaction."""

        self.began_ms = 0
        """When the first of them was sent."""

        self.pace = Pace()
        self.epochs: dict[TopicPartition, int | None] = {}
        """The source's leader epoch of the last record of each partition, where it is known."""

        self._patiently(self._client.init_transactions, "let the mirror begin to write")

    def send(self, unsent: Unsent) -> bool:
        """What may be under way now of some records of the source; whether there was any."""
        before = self.records
        for topic_partition, (message, headers, size) in unsent.take(self.pace.send):
            if not self.records:
                self.began_ms = now_ms()
            offset = message.offset()
            self._produce(
                topic_partition,
                message.value(),
                message.key(),
                partial(self._delivered, topic_partition, offset, size),
                message.timestamp()[1] or NOW + 1,
                headers,
            )
            self._sources[topic_partition].append(offset)
            self.epochs[topic_partition] = message.leader_epoch()
            self.records += 1
        return self.records > before

    def write(self, topic: str, entries: Iterable[Entry]) -> None:
        """Records of the ledger."""
        for key, value in entries:
            self._produce((topic, 0), value, key, self._noted)

    def listen(self, timeout_s: float) -> None:
        """Hear which records were acknowledged; wait so long at most for the first of them."""
        self._poll(timeout_s)
        self._check()

    def is_acknowledged(self) -> bool:
        """Whether all records are, after a moment; none is waited for behind one that was refused,
        as it only times out."""
        if len(self._client):
            self.listen(POLL_S)  # the client's own flush, once fenced, ends in a SystemError
        else:
            self._check()
        return not len(self._client)

    def delivered(self) -> dict[TopicPartition, tuple[Sequence[int], Sequence[int]]]:
        """The offsets of what was sent since the last call, in the source and in the target, once
        all of it is acknowledged."""
        found: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]]
        found = {
            topic_partition: (some, self._targets[topic_partition])
            for topic_partition, some in self._sources.items()
        }
        for topic_partition, (sources, targets) in found.items():
            if len(sources) != len(targets):
                raise Again(
                    f"{topic_partition[0]}-{topic_partition[1]}: the target did not give every "
                    "record's offset"
                )
        self._sources, self._targets = defaultdict(list), defaultdict(list)
        self.records = 0
        return found

    def commit(self) -> None:
        """End the transaction; if there is one."""
        if not self._is_open:
            return
        self._patiently(self._client.commit_transaction, "ended a transaction")
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

    def _produce(
        self,
        topic_partition: TopicPartition,
        value: Any,
        key: Any,
        on_delivery: Callable[[Any, Any], None],
        time_ms: int = NOW,
        headers: Any = None,
    ) -> None:
        if not self._is_open:
            self._judge(self._client.begin_transaction)
            self._is_open = True
        while True:
            try:
                self._client.produce(
                    topic_partition[0],
                    value,
                    key,
                    topic_partition[1],
                    on_delivery=on_delivery,
                    timestamp=time_ms,
                    headers=headers,
                )
            except BufferError:
                self.listen(POLL_S)
            except library().KafkaException as raised:
                self._await_reason()
                raise self._judged(raised.args[0]) from raised
            else:
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
        return judged(self._fatal if error.fatal() and self._fatal is not None else error)

    def _delivered(
        self, topic_partition: TopicPartition, source: int, size: int, error: Any, message: Any
    ) -> None:
        if error is not None:
            self._refusals.append(
                Refusal(error, topic_partition, source, message.key() is not None)
            )
            return
        self.pace.acknowledged(topic_partition, size)
        if (offset := message.offset()) is not None:
            self._targets[topic_partition].append(offset)
        # else the response was lost, and that of a later batch says only that this one was written:
        # `delivered` misses the offset

    def _noted(self, error: Any, message: Any) -> None:
        if error is not None:
            topic_partition = message.topic(), message.partition()
            self._refusals.append(Refusal(error, topic_partition, None, message.key() is not None))

    def _check(self) -> None:
        if self._fatal is not None:
            raise self._judged(self._fatal)
        if self._refusals:
            raise judged_refusals(self._refusals)

    def _patiently(self, call: Callable[[float], None], action: str) -> None:
        """Again and again, as long as librdkafka says that another try may help."""
        silence = Silence(self._report, action)
        while True:
            try:
                call(CALL_S)
            except library().KafkaException as raised:
                if not raised.args[0].retriable():
                    self._check()
                    raise self._judged(raised.args[0]) from raised
                silence.goes_on()
            else:
                return


def transaction_timeout_ms(properties: Mapping[str, str]) -> int:
    """After what time the target ends a transaction."""
    text = properties.get(TIMEOUT, "")
    return int(text) if is_whole(text, 64) else TRANSACTION_TIMEOUT_MS


def check_times(properties: Mapping[str, str]) -> None:
    """Failed if no record can be written in the times that were given."""
    for name, usual in LIBRARY_S.items():
        if name in properties:
            raise Failed(f"--target-config: {name} is set by its Java name, {usual}")
    timeout_ms = transaction_timeout_ms(properties)
    delivery_ms = int(_delivered_within(properties).get(DELIVERY_TIMEOUT, timeout_ms))
    if delivery_ms < DELIVERY_MS_MIN:
        raise Failed(
            f"--target-config: a record can't be written within {delivery_ms} ms: "
            f"{DELIVERY_TIMEOUT} and {TIMEOUT} are {DELIVERY_MS_MIN} at least"
        )
    linger = properties.get(LINGER, "")
    if is_whole(linger, 64) and int(linger) >= delivery_ms:
        raise Failed(
            f"--target-config: {LINGER}={linger} is too long: it is to be less than a record has "
            f"to be written, {delivery_ms} ms ({DELIVERY_TIMEOUT}, and {TIMEOUT} at most)"
        )


def _delivered_within(properties: Mapping[str, str]) -> dict[str, str]:
    """The time for a record, if one was given: not more than a transaction's, which librdkafka
    refuses."""
    text = properties.get(DELIVERY_TIMEOUT, "")
    if not is_whole(text, 64):
        return {}
    return {DELIVERY_TIMEOUT: str(min(int(text), transaction_timeout_ms(properties)))}


COMMON: Final = {
    "client.id": CLIENT_ID,
    "log_level": "0",
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.max.ms": "1000",
}
"""Of both clients; why the last two: docs/transactions.md, and librdkafka doubles its wait for the
next try to connect each time, up to 10 s by default."""
