"""What the mirror's producer makes of librdkafka's delivery reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import report as report_module
from kavka.tools.mirror import writer
from kavka.tools.mirror.failures import Again, Stuck, Tries
from kavka.tools.mirror.report import Report
from kavka.tools.mirror.unsent import RECORD_BYTES, Unsent
from kavka.tools.mirror.writer import (
    TRANSACTION_TIMEOUT_MS,
    Writer,
    check_times,
    transaction_timeout_ms,
)

OFFSET_INVALID = -1001
"""What librdkafka reports where the response was lost, and a later batch was acknowledged."""


class Reporting:
    """Stands in for librdkafka's producer: each record is delivered at once."""

    def __init__(self, offsets: list[int]) -> None:
        self._offsets = iter(offsets)

    def __len__(self) -> int:
        return 0

    def poll(self, timeout_s: float) -> None:
        pass

    def init_transactions(self, timeout_s: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        on_delivery(None, Message(topic=topic, partition=0, offset=next(self._offsets)))


def send(writer: Writer, *messages: Message) -> Unsent:
    """What is left of records."""
    unsent = Unsent()
    unsent.add(messages)
    writer.send(unsent)
    return unsent


def sent(monkeypatch: pytest.MonkeyPatch, offsets: list[int]) -> Writer:
    """A writer that has sent records, which are delivered at these offsets."""
    monkeypatch.setattr(writer, "producer", lambda _, **__: Reporting(offsets))
    found = Writer({}, "mirror", Report(None))
    for number in range(len(offsets)):
        send(found, Message(topic="t", partition=0, offset=number, value=b"v", timestamp=(1, 1)))
    return found


def test_the_offsets_of_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(monkeypatch, [7, 8]).delivered() == {("t", 0): ([0, 1], [7, 8])}


def test_a_record_without_offset_has_the_transaction_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Again, match="t-0: the target did not give every record's offset"):
        sent(monkeypatch, [7, OFFSET_INVALID]).delivered()


class Slow(Reporting):
    """Acknowledges nothing before it is waited for."""

    def __init__(self) -> None:
        super().__init__([])
        self.batches: list[list[bytes]] = [[]]
        self._waiting: list[tuple[Callable[..., None], Message]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def poll(self, timeout_s: float) -> None:
        if timeout_s:
            for number, (on_delivery, message) in enumerate(self._waiting):
                on_delivery(None, Message(topic=message.topic(), partition=0, offset=number))
            self._waiting = []
            self.batches.append([])

    def produce(self, topic: str, *words: Any, on_delivery: Callable[..., None], **_: Any) -> None:
        self._waiting.append((on_delivery, Message(topic=topic, partition=0)))
        self.batches[-1].append(words[0])


def test_no_batch_is_larger_than_a_topic_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is written whatever it has; other topics take as much as they come."""
    client = Slow()
    monkeypatch.setattr(writer, "producer", lambda _, **__: client)
    found = Writer({}, "mirror", Report(None))
    found.pace.limit({"t": 3 * RECORD_BYTES})
    sizes = [50, 50, 50, 10 * RECORD_BYTES, 100, 100]
    unsent = send(
        found,
        *(
            Message(topic="t", partition=0, offset=at, value=bytes(size), timestamp=(1, 1))
            for at, size in enumerate(sizes)
        ),
    )
    while unsent:
        assert not found.send(unsent)
        found.listen(1)
        assert found.send(unsent)
    assert [[*map(len, batch)] for batch in client.batches] == [
        [50, 50],
        [50],
        [1000],
        [100],
        [100],
    ]
    for at in range(100):
        send(found, Message(topic="u", partition=0, offset=at, value=b"v", timestamp=(1, 1)))
    assert len(client.batches[-1]) == 101
    assert found.is_acknowledged()
    assert [len(source_offsets) for source_offsets, _ in found.delivered().values()] == [6, 100]


class Refusing(Reporting):
    """The records of the first batch are refused with this error, when it is polled; then it takes
    no more, and keeps what it has until that times out."""

    def __init__(self, error: KafkaError, batch: int = 3) -> None:
        super().__init__([])
        self._error, self._batch = error, batch
        self._waiting: list[tuple[Callable[..., None], Message]] = []
        self._is_refused = False

    def __len__(self) -> int:
        return len(self._waiting)

    def poll(self, timeout_s: float) -> None:
        if timeout_s:
            self._is_refused = True
            for on_delivery, message in self._waiting[: self._batch]:
                on_delivery(self._error, message)
            del self._waiting[: self._batch]

    def produce(self, topic: str, *words: Any, on_delivery: Callable[..., None], **_: Any) -> None:
        if len(self._waiting) == self._batch + 1:
            raise KafkaException(KafkaError(KafkaError._STATE, "in an erroneous state"))
        message = Message(topic=topic, partition=0, offset=-1, key=words[1])
        self._waiting.append((on_delivery, message))


def refused(
    monkeypatch: pytest.MonkeyPatch, code: int, keys: list[bytes | None], batch: int = 3
) -> Exception:
    """What a writer raises when a target refuses the first of these records with this code; in the
    source they have the offsets from 10 on."""
    monkeypatch.setattr(writer, "producer", lambda _, **__: Refusing(KafkaError(code), batch))
    found = Writer({}, "mirror", Report(None))
    with pytest.raises((Again, Failed)) as raised:
        for at, key in enumerate(keys, 10):
            send(found, Message(topic="t", partition=0, offset=at, key=key, timestamp=(1, 1)))
        found.is_acknowledged()
    return raised.value


def test_a_record_without_key_is_named_where_a_compacted_topic_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = refused(monkeypatch, KafkaError.INVALID_RECORD, [b"k", None, b"k"])
    assert isinstance(failure, Stuck)
    tries = Tries()
    assert tries.count(failure, 0) == 1  # the topic's configs may have changed
    with pytest.raises(Failed) as ended:
        tries.count(failure, 0)
    message = str(ended.value)
    assert message.startswith(
        "the target refuses the record of t-0 at offset 11 of the source: INVAL"
    )
    assert "; it has no key, and a compacted topic takes no such record: leave" in message


def test_a_refused_record_with_a_key_is_named_without_a_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = refused(monkeypatch, KafkaError.INVALID_RECORD, [b"k"])
    assert str(failure).startswith("the target refuses the record of t-0 at offset 10 of the sour")
    assert "has no key" not in str(failure)


@pytest.mark.parametrize("records", [3, 4, 5])
def test_an_error_that_may_last_names_the_batch_at_once(
    monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """Also while records wait that only time out, and when no more are taken."""
    failure = refused(monkeypatch, KafkaError.UNKNOWN, [b"k"] * records)
    assert isinstance(failure, Stuck)
    assert failure.topic_partition == ("t", 0)
    assert "the records of t-0 at offsets 10 to 12 of the source: UNKNOWN" in str(failure)
    assert "more than 64 MiB" in failure.remedy


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT, KafkaError.INVALID_PRODUCER_EPOCH],
)
def test_what_passes_is_tried_for_ever(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    failure = refused(monkeypatch, code, [b"k"])
    assert isinstance(failure, Again)
    assert not isinstance(failure, Stuck)


def test_a_transaction_timeout_that_the_target_refuses_has_its_remedy_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Long(Reporting):
        def init_transactions(self, timeout_s: float) -> None:
            raise KafkaException(KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT))

    monkeypatch.setattr(writer, "producer", lambda _, **__: Long([]))
    with pytest.raises(
        Failed, match="INVALID_TRANSACTION_TIMEOUT.*; give the mirror a transaction.t"
    ):
        Writer({}, "mirror", Report(None))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"delivery.timeout.ms": "30000"}, "30000"),
        ({"delivery.timeout.ms": "120000"}, str(TRANSACTION_TIMEOUT_MS)),
        ({"delivery.timeout.ms": "120000", "transaction.timeout.ms": "5000"}, "5000"),
        ({"delivery.timeout.ms": "soon"}, "soon"),
    ],
)
def test_a_record_has_no_longer_than_its_transaction(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str | None
) -> None:
    made: list[dict[str, str]] = []

    def producer(properties: dict[str, str], **_: object) -> Reporting:
        made.append(properties)
        return Reporting([])

    monkeypatch.setattr(writer, "producer", producer)
    Writer(given, "mirror", Report(None))
    assert made[0].get("delivery.timeout.ms") == expected
    timeout_ms = int(made[0]["transaction.timeout.ms"])
    assert transaction_timeout_ms(given) == timeout_ms


@pytest.mark.parametrize("name", ["init_transactions", "commit_transaction"])
def test_a_target_that_does_not_answer_is_waited_for_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    now_ms, left = 0, [None] * 100

    class Down(Reporting):
        def commit_transaction(self, timeout_s: float) -> None:
            pass

    def silent(_: object, timeout_s: float) -> None:
        nonlocal now_ms
        now_ms += round(1000 * timeout_s)
        if left:
            left.pop()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "resume", retriable=True))

    monkeypatch.setattr(Down, name, silent)
    monkeypatch.setattr(report_module, "now_ms", lambda: now_ms)
    monkeypatch.setattr(writer, "producer", lambda _, **__: Down([7]))
    found = Writer({}, "mirror", Report(None))
    send(found, Message(topic="t", partition=0, offset=0, value=b"v", timestamp=(1, 1)))
    found.commit()
    action = "let the mirror begin to write" if name.startswith("init") else "ended a transaction"
    assert capsys.readouterr().err == f"waits: the target has not {action} within 10 s\n"
    assert not left


def test_what_librdkafka_takes_no_record_with_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfit(Reporting):
        def produce(self, *_: Any, **__: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    monkeypatch.setattr(writer, "producer", lambda _, **__: Unfit([]))
    monkeypatch.setattr(writer, "REASON_MS", 0)
    found = Writer({}, "mirror", Report(None))
    with pytest.raises(
        Failed, match="takes no record: _INVALID_ARG: .*; see the settings in --tar"
    ):
        send(found, Message(topic="t", partition=0, offset=0, value=b"v", timestamp=(1, 1)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"linger.ms": "60000"}, "linger.ms=60000 is too long"),
        ({"linger.ms": "70000", "delivery.timeout.ms": "90000"}, "linger.ms=70000 is too long"),
        ({"linger.ms": "3000", "delivery.timeout.ms": "3000"}, "linger.ms=3000 is too long"),
        ({"delivery.timeout.ms": "999"}, "a record can't be written within 999 ms"),
        ({"transaction.timeout.ms": "999"}, "a record can't be written within 999 ms"),
        ({"message.timeout.ms": "1"}, "message.timeout.ms is set by .* delivery.timeout.ms"),
        ({"queue.buffering.max.ms": "70000"}, "queue.buffering.max.ms is set by .* linger.ms"),
    ],
)
def test_times_in_which_no_record_can_be_written_are_named(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(Failed, match=f"^--target-config: {said}"):
        check_times(given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"linger.ms": "59999"},
        {"linger.ms": "70000", "transaction.timeout.ms": "80000"},
        {"delivery.timeout.ms": "1000"},
        {"linger.ms": "soon", "delivery.timeout.ms": "later"},
    ],
)
def test_other_times_are_librdkafka_s_to_judge(given: dict[str, str]) -> None:
    check_times(given)
