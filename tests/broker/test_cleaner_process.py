"""The process that compacts, when its broker is killed: it ends, and is in no successor's way."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.lingering import LingeringKavka
from support.wait import eventually

TOPIC = "compacted"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
}
SLOW = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.io.max.bytes.per.second": "20000",
}
FAST = {"log.cleaner.io.max.bytes.per.second": "1000000000"}
WITHIN_S = 60.0
SOON_S = 10.0
"""Less than its compaction would take."""


def children(pid: int) -> list[int]:
    found = ""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += " " + (task / "children").read_text()
    return [int(child) for child in found.split()]


def state(pid: int) -> str:
    """One letter as `ps` has it; empty when the process is gone, or only waits to be buried."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    letter = text.rpartition(")")[2].split()[0]
    return "" if letter in "ZX" else letter


def is_writing(broker: Kavka) -> bool:
    """Whether there is something of a compaction."""
    return any(broker.data_dir.glob(f"{TOPIC}-0/*.cleaned"))


def stopped_while_writing(broker: Kavka, pid: int) -> int | None:
    """The process of a compaction, which stands still now; None if it was not writing then."""
    for child in children(pid):
        with suppress(ProcessLookupError):  # it was at its end
            os.kill(child, signal.SIGSTOP)
            eventually(
                lambda: state(child) in ("", "T"),  # noqa: B023 - called here
                within_s=WITHIN_S,
                what="it stands still",
            )
            if state(child) and is_writing(broker):
                return child
            os.kill(child, signal.SIGCONT)
    return None


def fill(broker: Kavka, seed: int) -> dict[bytes, bytes]:
    """Write many values of a few keys; the last of each."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    last: dict[bytes, bytes] = {}
    for number in range(3000):
        key = b"key-%d" % chance.randrange(400)
        last[key] = b"%d of %d " % (number, seed) + bytes(chance.randrange(200))
        producer.produce(TOPIC, last[key], key)
        if number % 50 == 0:
            producer.flush(WITHIN_S)
    assert producer.flush(WITHIN_S) == 0
    return last


def read(broker: Kavka) -> dict[bytes, bytes]:
    """The last value of each key, by a stock client that checks each batch."""
    partition = TopicPartition(TOPIC, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, check_crcs=True)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        last: dict[bytes, bytes] = {}
        while consumer.position(partition) < end:
            for records in consumer.poll(1000).values():
                last |= {record.key: record.value for record in records}
        return last
    finally:
        consumer.close()


@pytest.fixture(params=[Kavka, LingeringKavka], ids=lambda kind: kind.kind.replace(" ", "_"))
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kavka]:
    """With something to compact; with or without the kernel's help."""
    made: Kavka = request.param(tmp_path / "broker", SLOW)
    try:
        yield made.start()
    finally:
        made.close()


def test_it_is_paused_while_its_broker_is_killed_and_started_again(broker: Kavka) -> None:
    create_topic(broker.bootstrap, TOPIC, 1, CONFIGS)
    written = fill(broker, 1)
    assert broker.process is not None
    pid = broker.process.pid
    child = eventually(
        lambda: stopped_while_writing(broker, pid),
        within_s=WITHIN_S,
        what="one is stopped",
    )
    broker.kill()
    assert "Traceback" not in broker.output()
    broker.settings |= FAST
    broker.launch()
    if isinstance(broker, LingeringKavka):
        eventually(
            lambda: "is in use by a process of a broker that was killed" in broker.output(),
            within_s=WITHIN_S,
            what="the successor waits",
            detail=broker.tail,
        )
        assert state(child) == "T"
        os.kill(child, signal.SIGCONT)
    else:
        eventually(lambda: not state(child), within_s=WITHIN_S, what="it is killed as it stands")
    broker.await_ready(WITHIN_S)
    assert not state(child)
    written |= fill(broker, 2)
    eventually(
        lambda: (broker.data_dir / "cleaner-offset-checkpoint").exists(),
        within_s=WITHIN_S,
        what="the successor compacts",
    )
    assert read(broker) == written
    broker.stop()
    broker.start()
    assert read(broker) == written
    for number in range(1, broker.starts + 1):
        output = (broker.home / f"output-{number}.log").read_text()
        assert "Traceback" not in output
        assert "CORRUPT" not in output and "damaged" not in output


def test_it_runs_while_its_broker_is_killed(broker: Kavka) -> None:
    """Nothing is said on the console, and no cleaner process is left."""
    create_topic(broker.bootstrap, TOPIC, 1, CONFIGS)
    written = fill(broker, 1)
    assert broker.process is not None
    for _ in range(3):
        pid = broker.process.pid
        (child,) = eventually(lambda: children(pid), within_s=WITHIN_S, what="a compaction begins")  # noqa: B023
        eventually(lambda: is_writing(broker), within_s=WITHIN_S, what="it writes")
        broker.kill()
        eventually(lambda: not state(child), within_s=SOON_S, what="it ends with its broker")  # noqa: B023
        assert "Traceback" not in broker.output()
        broker.start()
        assert broker.process is not None
    assert read(broker) == written
