"""A source that is written to, a mirror that is killed, and what a target must then have."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from support.broker import Kavka, kavka_environment
from support.process import BrokerProcess, running
from support.wait import eventually

WITHIN_S = 120.0
PARTITIONS = 3
ABORTED_EVERY = 5
"""Of the transactions that write the topics whose number is odd."""

TRANSACTION_RECORDS = 200
TIME_MS = 1_700_000_000_000
SETTINGS: Mapping[str, str] = {
    "log.retention.ms": "-1",  # records have times of long ago
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

BEGUN = '"event": "progress"'
NOT_YET = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)

Place = tuple[str, int]


class Record(NamedTuple):
    """All that a mirror must keep."""

    key: bytes | None
    value: bytes | None
    headers: Any
    time: tuple[int, int]


Found = Mapping[Place, Sequence[tuple[int, Record]]]
"""The committed records of each partition, with their offsets."""


@contextmanager
def kavkas(home: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[tuple[Kavka, Kavka]]:
    """A source and a target, for the length of a `with` block."""
    source, target = (Kavka(home / side, settings) for side in ("source", "target"))
    with running([source, target]):
        yield source, target


def topic_names(count: int) -> list[str]:
    """Of the source's topics."""
    return [f"t{number}" for number in range(count)]


def fill(bootstrap: str, topics: Sequence[str], records: int, first: int = 0) -> None:
    """Write about so many records. Half of the topics get them in transactions, some of which are
    aborted: their offsets are no records'."""
    plain, in_transactions = topics[::2], topics[1::2]
    _write(_producer(bootstrap), plain, range(first, first + records // 2))
    writer = _producer(bootstrap, {"transactional.id": "filler"})
    writer.init_transactions(WITHIN_S)
    numbers = range(first, first + records - records // 2)
    for begin in range(0, len(numbers), TRANSACTION_RECORDS):
        writer.begin_transaction()
        _write(writer, in_transactions, numbers[begin : begin + TRANSACTION_RECORDS])
        if begin // TRANSACTION_RECORDS % ABORTED_EVERY == 1:
            writer.abort_transaction(WITHIN_S)
        else:
            writer.commit_transaction(WITHIN_S)


def _producer(bootstrap: str, more: Mapping[str, str] = {}) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **more})


def _write(producer: Producer, topics: Sequence[str], numbers: range) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    for number in numbers:
        headers: list[tuple[str, bytes | None]] = [("n", b"%d" % number), ("n", None), ("", b"")]
        producer.produce(
            topics[number % len(topics)],
            None if number % 11 == 0 else b"%d" % number if number % 7 else b"",
            None if number % 13 == 0 else b"k%d" % (number % 100),
            partition=number // len(topics) % PARTITIONS,
            timestamp=TIME_MS + number * 7 % 1000,  # not in order
            headers=headers[: number % 4],
            on_delivery=delivered,
        )
        if number % 1000 == 0:
            while len(producer) > 20_000:
                producer.poll(0.1)
    assert producer.flush(WITHIN_S) == 0
    assert not failures, failures[:10]


def read(bootstrap: str, topics: Sequence[str]) -> Found:
    """All committed records."""
    places = [(topic, at) for topic in topics for at in range(PARTITIONS)]
    found: dict[Place, list[tuple[int, Record]]] = {place: [] for place in places}
    left = set(places)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(*place, 0) for place in places])
    while left:
        first = consumer.poll(WITHIN_S)
        assert first is not None, f"{left} are not read to their end"
        for message in (first, *consumer.consume(1000, 0)):
            place = message.topic(), message.partition()
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(place)
                continue
            record = Record(message.key(), message.value(), message.headers(), message.timestamp())
            found[place].append((message.offset(), record))
    consumer.close()
    return found


def commit(bootstrap: str, group: str, offsets: Mapping[Place, int]) -> None:
    """As a consumer of the group, with metadata."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    requested = [TopicPartition(*place, offset, "note") for place, offset in offsets.items()]
    assert not any(
        partition.error
        for partition in consumer.commit(offsets=requested, asynchronous=False) or ()
    ), requested
    consumer.close()


def committed(
    bootstrap: str, group: str, topics: Sequence[str]
) -> dict[Place, tuple[int, str | None]]:
    """A group's offsets, with metadata."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, at) for topic in topics for at in range(PARTITIONS)]
    found = consumer.committed(partitions, WITHIN_S)
    consumer.close()
    return {
        (partition.topic, partition.partition): (partition.offset, partition.metadata)
        for partition in found
        if partition.offset >= 0
    }


def differences(here: Found, there: Found) -> Iterator[str]:
    """Where the target has not the source's records, each once, in their order."""
    for place, records in here.items():
        expected = [record for _, record in records]
        found = [record for _, record in there[place]]
        if expected == found:
            continue
        at = next(
            (at for at, two in enumerate(zip(expected, found, strict=False)) if two[0] != two[1]),
            min(len(expected), len(found)),
        )
        yield (
            f"{place}: {len(expected)} records in the source, {len(found)} in the target; "
            f"from record {at} on: {expected[at : at + 3]} and {found[at : at + 3]}"
        )


def misplaced(
    here: Found,
    there: Found,
    offsets: Mapping[Place, int],
    translated: Mapping[Place, tuple[int, str | None]],
) -> Iterator[str]:
    """Offsets of a group from which a consumer of the target does not go on where it was."""
    for place, offset in offsets.items():
        if place not in translated:
            yield f"{place}: {offset} is not translated"
            continue
        new, note = translated[place]
        left = sum(at >= offset for at, _ in here[place])
        left_there = sum(at >= new for at, _ in there[place])
        if left != left_there:
            yield f"{place}: {offset} has {left} records to go, {new} in the target {left_there}"
        if note != "note":
            yield f"{place}: the metadata is {note!r}"


class MirrorProcess:
    """`kavka mirror` as a process."""

    def __init__(self, source: BrokerProcess, target: BrokerProcess, home: Path) -> None:
        self._servers = ["--source", source.bootstrap, "--target", target.bootstrap]
        self._output = home / "mirror.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> Self:
        """Copy every topic that begins with a t; wait until it has found both clusters."""
        words = ["mirror", *self._servers, "--include", "t.*", "--refresh-ms", "500", *options]
        words += ["--output", "json"]
        said = len(self.output()) if self.has_run else 0
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kavka", *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=kavka_environment(),
            )
        try:
            eventually(
                lambda: BEGUN in self.output()[said:],
                within_s=WITHIN_S,
                what="the mirror begins",
                detail=self.output,
            )
        except BaseException:
            self.close()
            raise
        return self

    @property
    def has_run(self) -> bool:
        """Whether it was started before."""
        return self._output.exists()

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        assert self._process.poll() is None, self.output()
        self._process.kill()
        self._process.wait(WITHIN_S)

    def end(self, signum: int | None = signal.SIGINT) -> int:
        """Wait for its end, after a signal; the exit code."""
        assert self._process is not None
        if signum is not None:
            self._process.send_signal(signum)
        return self._process.wait(WITHIN_S)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End it in any way."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        """All that its processes have printed."""
        return self._output.read_text(errors="replace")


class Watch:
    """How many offsets the target's partitions have, for moments in the middle of the work."""

    def __init__(self, target: BrokerProcess, topics: Sequence[str]) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": target.bootstrap, "group.id": "watch", "log_level": 0}
        )
        self._topics = topics

    def await_offsets(self, count: int, mirror: MirrorProcess) -> None:
        """Wait until there are so many."""
        ends: defaultdict[Place, int] = defaultdict(int)

        def come() -> bool:
            known = self._consumer.list_topics(timeout=WITHIN_S).topics
            for topic in self._topics:
                for at in range(PARTITIONS) if topic in known else ():
                    ends[topic, at] = self._end(TopicPartition(topic, at)) or ends[topic, at]
            return sum(ends.values()) >= count

        eventually(
            come, within_s=WITHIN_S, what=f"{count} offsets in the target", detail=mirror.output
        )

    def _end(self, place: TopicPartition) -> int | None:
        """None while librdkafka does not know who leads a new topic."""
        try:
            _, end = self._consumer.get_watermark_offsets(place, WITHIN_S)
        except KafkaException as failure:
            if failure.args[0].code() not in NOT_YET:
                raise
            return None
        return int(end)


def places_to_commit(here: Found, chance: random.Random) -> dict[Place, int]:
    """Anywhere in each partition: on a record, between records, and at the end."""
    found = {}
    for place, records in here.items():
        if records:
            found[place] = chance.randint(0, records[-1][0] + 1)
    return found
