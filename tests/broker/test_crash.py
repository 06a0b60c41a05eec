"""SIGKILL at random moments under idempotent producers: no record lost, doubled or out of order.

Three topics: one that keeps all, one whose old segments go while they are written, and one that
is compacted all the time. CRASH_ROUNDS (5; `make crash` sets 200) says how often the broker is
killed, CRASH_SEED replays a run's moments.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict

import pytest

from support import java
from support.broker import StartBroker
from support.clients.client import Found
from support.clients.every import CONFLUENT
from support.clients.idempotent import ConfluentWriter, History, KafkaPythonWriter, Writer
from support.clients.kafka_python import create_topic, offsets
from support.dump_log import assert_sound, files
from support.process import BrokerProcess
from support.wait import eventually, random_moment

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "5"))
SEED = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))

PARTITIONS = 3
SEGMENT_BYTES = 1_048_576
"""Small, so that some rounds meet a roll."""
ACKS_A_ROUND_MAX = 4_000
ROUND_WITHIN_S = 120.0
SECOND_KILL = 0.2
"""Share of restarts that are killed as well, at any point of the start."""
RETENTION_BYTES = SEGMENT_BYTES
ACKS_AT_LEAST = 12_000
"""Of each topic of these, 3 MB: enough for segments to go and to be compacted."""
KEYS = 40
OFTEN_MS = "100"
BUSY = {
    "log.retention.check.interval.ms": OFTEN_MS,
    "log.initial.task.delay.ms": OFTEN_MS,
    "log.cleaner.backoff.ms": OFTEN_MS,
}
"""Old segments go, and logs are compacted, all the time."""


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_crash_loses_and_doubles_nothing(start_broker: StartBroker) -> None:
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    chance = random.Random(SEED)
    broker = start_broker(**BUSY)
    small = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": OFTEN_MS}
    create_topic(broker.bootstrap, "crash", PARTITIONS, small)
    short_lived = {"retention.bytes": str(RETENTION_BYTES)}
    create_topic(broker.bootstrap, "crash.short", 1, small | short_lived)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(broker.bootstrap, "crash.keys", 1, small | compacted)
    history, of_short, of_keys = History(), History(), History()
    writers: list[Writer] = [
        kind(broker.bootstrap, "crash", PARTITIONS, history)
        for kind in (ConfluentWriter, KafkaPythonWriter)
    ]
    writers.append(ConfluentWriter(broker.bootstrap, "crash.short", 1, of_short))
    writers.append(ConfluentWriter(broker.bootstrap, "crash.keys", 1, of_keys, keys=KEYS))
    for writer in writers:
        writer.start()
    try:
        for number in range(ROUNDS):
            moment = f"round {number}, CRASH_SEED={SEED}"
            crash(broker, [history, of_short, of_keys], chance, moment)
        eventually(
            lambda: of_short.holds(ACKS_AT_LEAST) and of_keys.holds(ACKS_AT_LEAST),
            within_s=ROUND_WITHIN_S,
            what="enough acknowledgements",
            detail=broker.tail,
        )
    finally:
        for writer in writers:
            writer.finish()
    for each in (history, of_short, of_keys):
        assert not each.failures, each.failures[:10]
    check(broker, history)
    check_short(broker, of_short)
    check_keys(broker, of_keys)
    broker.stop()
    if java.available():
        assert_sound(broker.data_dir, compacted=["crash.keys"])


def crash(
    broker: BrokerProcess, histories: list[History], chance: random.Random, moment: str
) -> None:
    """Wait for some acknowledgements, one for each writer at least, kill the broker, and start it
    again."""
    before = [each.by_writer.copy() for each in histories]
    acknowledgements = len(histories[0].acknowledged) + chance.randrange(1, ACKS_A_ROUND_MAX)

    def goes_on(each: History, had: Counter[bytes]) -> bool:
        return all(each.by_writer[writer] > had[writer] for writer in had) and bool(each.by_writer)

    def enough() -> bool:
        if any(each.failures for each in histories):
            return True
        return histories[0].holds(acknowledgements) and all(map(goes_on, histories, before))

    eventually(
        enough,
        within_s=ROUND_WITHIN_S,
        what=f"acknowledgements in {moment}",
        detail=broker.tail,
    )
    for history in histories:
        assert not history.failures, f"{moment}: {history.failures[:10]}"
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


def check_short(broker: BrokerProcess, history: History) -> None:
    """All from the start offset on is there, and no more has gone than was to go."""
    eventually(
        lambda: offsets(broker.bootstrap, "crash.short", 1)[0][0] > 0,
        within_s=ROUND_WITHIN_S,
        what="the oldest has gone",
        detail=broker.tail,
    )
    firsts, ends = offsets(broker.bootstrap, "crash.short", 1)
    found = CONFLUENT.read(broker.bootstrap, "crash.short", ends)[0]
    kept = {at: value for (_, at), value in history.acknowledged.items() if at >= firsts[0]}
    print(f"{len(history.acknowledged)} acknowledged, {len(kept)} of them to be kept")
    assert {at: record.value for at, record in found} == kept
    assert_rising(0, found)
    logs = [path for path in files(broker.data_dir) if path.parent.name == "crash.short-0"]
    size = sum(path.stat().st_size for path in logs if path.suffix == ".log")
    assert size >= RETENTION_BYTES, "more has gone than was to go"


def check_keys(broker: BrokerProcess, history: History) -> None:
    """The last value of each key is there, and of the others none that was never written."""
    eventually(
        lambda: is_compacted(broker, "crash.keys"),
        within_s=ROUND_WITHIN_S,
        what="something is compacted",
        detail=broker.tail,
    )
    _, ends = offsets(broker.bootstrap, "crash.keys", 1)
    found = CONFLUENT.read(broker.bootstrap, "crash.keys", ends)[0]
    written = {at: value for (_, at), value in history.acknowledged.items()}
    print(f"{len(written)} acknowledged, {len(found)} of them left by compaction")
    assert {at: record.value for at, record in found}.items() <= written.items()
    last: dict[int, int] = {}
    for at, value in sorted(written.items()):
        last[int(value.split(b"/", 3)[2]) % KEYS] = at
    assert len(last) == KEYS
    left = {at for at, _ in found}
    assert not [at for at in last.values() if at not in left]
    assert ends[0] == max(written) + 1
    assert len(found) < len(written), "nothing was compacted"


def is_compacted(broker: BrokerProcess, topic: str) -> bool:
    """Whether the broker's checkpoint says that some of a topic's partition 0 is."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return any(line.startswith(f"{topic} 0 ") and not line.endswith(" 0") for line in lines)


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
