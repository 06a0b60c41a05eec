"""SIGKILL at random moments under idempotent producers: no record lost, doubled or out of order.

CRASH_ROUNDS (5; `make crash` sets 50) says how often, CRASH_SEED replays a run's moments.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict

import pytest

from support import java
from support.broker import StartBroker
from support.clients.client import Found
from support.clients.every import CONFLUENT
from support.clients.idempotent import ConfluentWriter, History, KafkaPythonWriter, Writer
from support.clients.kafka_python import create_topic, offsets
from support.dump_log import assert_sound
from support.process import BrokerProcess
from support.wait import eventually, random_moment

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "5"))
SEED = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))

PARTITIONS = 3
SEGMENT_BYTES = 1_048_576
"""Small, so that some rounds meet a roll."""
ACKS_A_ROUND_MAX = 4_000
ROUND_WITHIN_S = 60.0
SECOND_KILL = 0.2
"""Share of restarts that are killed as well, at whatever they are doing by then."""


@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_crash_loses_and_doubles_nothing(start_broker: StartBroker) -> None:
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    chance = random.Random(SEED)
    broker = start_broker()
    create_topic(broker.bootstrap, "crash", PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
    history = History()
    writers: list[Writer] = [
        kind(broker.bootstrap, "crash", PARTITIONS, history)
        for kind in (ConfluentWriter, KafkaPythonWriter)
    ]
    for writer in writers:
        writer.start()
    try:
        for number in range(ROUNDS):
            crash(broker, history, chance, f"round {number}, CRASH_SEED={SEED}")
    finally:
        for writer in writers:
            writer.finish()
    assert not history.failures, history.failures[:10]
    check(broker, history)
    broker.stop()
    if java.available():
        assert_sound(broker.data_dir)


def crash(broker: BrokerProcess, history: History, chance: random.Random, what: str) -> None:
    """Wait for some acknowledgements, kill the broker, and start it again."""
    wanted = len(history.acknowledged) + chance.randrange(1, ACKS_A_ROUND_MAX)
    eventually(
        lambda: len(history.acknowledged) >= wanted or history.failures,
        within_s=ROUND_WITHIN_S,
        what=f"acknowledgements in {what}",
        detail=broker.tail,
    )
    assert not history.failures, f"{what}: {history.failures[:10]}"
    broker.kill()
    while chance.random() < SECOND_KILL:
        broker.launch()
        random_moment(chance, broker.ready_after_s)
        broker.kill()
    broker.start()


def check(broker: BrokerProcess, history: History) -> None:
    """What was acknowledged lies where it was said to, and each writer's numbers only rise."""
    _, ends = offsets(broker.bootstrap, "crash", PARTITIONS)
    found = CONFLUENT.read(broker.bootstrap, "crash", ends)
    places = {
        (partition, at): record.value for partition in found for at, record in found[partition]
    }
    print(f"{len(history.acknowledged)} acknowledged, {len(places)} found")
    lost = [
        f"{place}: {value[:40]!r}, found {places.get(place, b'nothing')!r:.60}"
        for place, value in history.acknowledged.items()
        if places.get(place) != value
    ]
    assert not lost, f"{len(lost)} lost or elsewhere: {lost[:10]}"
    assert len(places) == len(history.acknowledged), "no writer failed, yet there is more"
    for partition, records in found.items():
        assert_rising(partition, records)


def assert_rising(partition: int, records: list[Found]) -> None:
    """Per writer: no number twice, none after a higher one."""
    last: dict[bytes, int] = defaultdict(lambda: -1)
    for at, record in records:
        assert record.value is not None
        writer, written_to, number, _ = record.value.split(b"/", 3)
        assert int(written_to) == partition
        assert int(number) > last[writer], (
            f"{partition}@{at}: {record.value[:40]!r} after {last[writer]}"
        )
        last[writer] = int(number)
